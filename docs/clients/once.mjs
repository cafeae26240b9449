// One reply is lost on its way: what ioredis charges by default, and with the settings of docs/redis.md.
//
// Run by `cargo xtask clients`. REDIS_URL names a server on which `tollgate redis install` was run.

import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { Redis } from "ioredis";

const url = new URL(process.env.REDIS_URL);

// A way to the server that loses the first reply to an FCALL; answers its URL.
async function proxy() {
  let lost = false;
  const listener = net.createServer((client) => {
    const server = net.connect(Number(url.port), url.hostname);
    let asked = false;
    client.on("data", (data) => {
      asked ||= data.toString("latin1").toLowerCase().includes("fcall");
      server.write(data);
    });
    server.on("data", (data) => {
      if (asked && !lost) {
        lost = true;
        client.destroy();
        server.destroy();
      } else {
        client.write(data);
      }
    });
    for (const [one, other] of [[client, server], [server, client]]) {
      one.on("error", () => {});
      one.on("close", () => other.destroy());
    }
  });
  listener.listen(0, "127.0.0.1").unref();
  await once(listener, "listening");
  return `redis://127.0.0.1:${listener.address().port}`;
}

const direct = new Redis(url.href);

// How a check ends whose reply is lost, and what it leaves of ten.
async function lose(key, options) {
  const client = new Redis(await proxy(), options);
  client.on("error", () => {});
  const ended = await client.fcall("tollgate", 1, key, "10/h").then(() => "answered", () => "failed");
  client.disconnect();
  return [ended, (await direct.fcall("tollgate_peek", 1, key, "10/h"))[2]];
}

const changed = "ioredis no longer charges twice by default: tell docs/redis.md";
assert.deepEqual(await lose("tg:{once:node:default}", {}), ["answered", 8], changed);
const careful = { maxRetriesPerRequest: 0, commandTimeout: 1000 };
assert.deepEqual(await lose("tg:{once:node:careful}", careful), ["failed", 9]);

direct.disconnect();
console.log("once.mjs: a lost reply is one charge with the settings of the guide, and two without");
