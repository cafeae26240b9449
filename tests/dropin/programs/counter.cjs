// The counter a minute of redis-limiter, written after that limiter's document, by the current node redis.
//
// Run by `cargo xtask dropin`. REDIS_URL names the server, TRIGGER is 1 where it keeps {api:TOKEN}:data as the
// document's trigger does. The minute is part of a counter's name and is the caller's, so no clock is waited for. Exits
// with an error if a reply is not what the document says.

const assert = require("node:assert/strict");
const { createClient } = require("redis");

const version = require("redis/package.json").version;

async function isAllowed(client, token, minute, threshold) {
  const counter = `{api:${token}}:${minute}`;
  const used = Number(await client.get(counter));
  if (used >= threshold) return false;
  const [count, expires] = await client.multi().incr(counter).expire(counter, 59).exec();
  assert.equal(count, used + 1);
  assert.ok(expires === 1 || expires === true);
  return true;
}

async function documented(client) {
  const told = [];
  for (let count = 0; count < 4; count += 1) told.push(await isAllowed(client, "node1234567", 54, 3));
  assert.deepEqual(told, [true, true, true, false]);
  assert.equal(await isAllowed(client, "node1234567", 55, 3), true);
  const data = await client.hGetAll("{api:node1234567}:data");
  if (process.env.TRIGGER === "1") {
    assert.equal(data.ops, "4");
    assert.ok(Number(data.last) > 1_600_000_000);
  } else {
    assert.deepEqual(Object.keys(data), []);
  }
}

// `npm run deploy`, whose text this is not: what cannot be loaded is refused with what to do.
async function deploy(client) {
  const load = client.sendCommand(["TFUNCTION", "LOAD", "REPLACE", "#!js api_version=1.0 name=limiter\n"]);
  await assert.rejects(load, process.env.TRIGGER === "1" ? /keeps by itself/ : /unknown command/);
}

async function clear(client) {
  // SCAN may name a key twice.
  const found = new Set();
  for await (const keys of client.scanIterator({ MATCH: "{api:node*", COUNT: 100 })) {
    for (const key of [keys].flat()) found.add(key);
  }
  for (const key of found) assert.equal(await client.del(key), 1);
  assert.equal(await client.exists("{api:node1234567}:54"), 0);
}

async function main() {
  for (const RESP of [2, 3]) {
    const client = createClient({ url: process.env.REDIS_URL, RESP });
    client.on("error", (error) => assert.fail(error));
    await client.connect();
    for (const part of [clear, documented, deploy, clear]) await part(client);
    await client.close();
  }
  console.log(`counter.cjs: redis ${version}, RESP2 and RESP3`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
