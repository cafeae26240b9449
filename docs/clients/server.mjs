// The Tollgate server from Node, by ioredis as it is. Run by `cargo xtask outsiders`.
//
// TOLLGATE_PORT is where a server listens, TOLLGATE_TOKEN its token. Exits with an error if a reply is not
// what it should be.

import assert from "node:assert/strict";
import { Redis } from "ioredis";

const port = Number(process.env.TOLLGATE_PORT ?? 7379);
const token = process.env.TOLLGATE_TOKEN;

// A check, its reply as integers, and what is wrong as an error.
async function checks(server, key) {
  assert.deepEqual(await server.call("TG.CHECK", key, "2/min"), [1, 1, 1, 0, 60_000_000, 0]);
  const refused = await server.call("TG.CHECK", key, "2/min", "COST", 2);
  assert.deepEqual([...refused.slice(0, 3), refused[5]], [0, 0, 1, 1]);
  assert.ok(refused[3] > 0 && refused[3] <= 60_000_000 && refused[3] === refused[4]);
  await assert.rejects(server.call("TG.CHECK", key, "2/parsec"), /column 3: expected a unit/);
  await assert.rejects(server.call("TG.NOPE", key), /unknown command 'TG.NOPE'/);
  assert.equal(await server.ping(), "PONG");
}

// Several commands at once, as they are and as a transaction.
async function pipelines(server, key) {
  for (const kind of ["pipeline", "multi"]) {
    const line = server[kind]();
    for (let count = 0; count < 3; count += 1) line.call("TG.CHECK", `${key}:${kind}`, "2/min");
    const replies = await line.exec();
    assert.deepEqual(replies.map(([error, reply]) => [error, reply[0]]), [[null, 1], [null, 1], [null, 0]]);
  }
}

// What tools ask of a server.
async function questions(server) {
  assert.match(await server.info(), /^loading:0\r$/m);
  const config = await server.config("GET", "save");
  assert.deepEqual(Array.isArray(config) ? config : Object.entries(config).flat(), ["save", ""]);
  assert.equal(await server.client("GETNAME"), "outsider");
  assert.match(await server.client("INFO"), /lib-name=ioredis/);
  assert.ok((await server.command("COUNT")) > 10);
  assert.equal(await server.echo("hello"), "hello");
}

// The counters that limiters written over INCR and EXPIRE keep.
async function keys(server, key) {
  await server.del(key);
  assert.deepEqual([await server.incr(key), await server.incrby(key, 4)], [1, 5]);
  assert.deepEqual([await server.ttl(key), await server.ttl(`${key}:none`)], [-1, -2]);
  assert.equal(await server.expire(key, 100), 1);
  assert.ok((await server.pttl(key)) > 0);
  assert.deepEqual(await server.multi().incr(key).ttl(key).exec(), [[null, 6], [null, 100]]);
  assert.deepEqual([await server.get(key), await server.del(key), await server.exists(key)], ["6", 1, 0]);
}

for (const protocol of [2, 3]) {
  const server = new Redis({ port, protocol, db: 9, connectionName: "outsider" });
  await checks(server, `node:${protocol}`);
  await pipelines(server, `node:pipe:${protocol}`);
  await questions(server);
  await keys(server, `node:keys:${protocol}`);
  await assert.rejects(server.call("TG.REFUND", "node", "2/min", 1, 1), /NOPERM/);
  server.disconnect();

  // A password is a token, whoever the user is.
  for (const login of [{ password: token }, { username: "someone", password: token }]) {
    const admin = new Redis({ port, protocol, ...login });
    assert.equal(await admin.call("TG.REFUND", "node", "2/min", 1, 1), 0);
    admin.disconnect();
  }
}

const server = new Redis({ port });
const reply = await server.call("TG.CHECK", "user:42", "100/min");
const [allowed, granted, remaining, retryUs, resetUs, limitedBy] = reply;
assert.deepEqual([allowed, granted, limitedBy], [1, 1, 0]);
server.disconnect();

console.log("server.mjs: ioredis speaks with the server, in RESP2 and RESP3");
