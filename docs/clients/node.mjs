// Tollgate's functions from Node, by ioredis. Run by `cargo xtask clients`; docs/redis.md quotes it.
//
// REDIS_URL names a server on which `tollgate redis install` was run. Exits with an error if a reply is
// not what the guide says.

import assert from "node:assert/strict";
import { Redis } from "ioredis";

const url = process.env.REDIS_URL ?? "redis://127.0.0.1:6379";

const server = new Redis(url, { maxRetriesPerRequest: 0, commandTimeout: 1000 });
const [allowed, granted, left, retryUs, resetUs, by] = await server.fcall("tollgate", 1, "tg:{node}", "2/min");

assert.deepEqual([allowed, granted, left, retryUs, resetUs, by], [1, 1, 1, 0, 60_000_000, 0]);

// Two units where one is left: refused, nothing charged, and the wait is until the first comes back.
const refused = await server.fcall("tollgate", 1, "tg:{node}", "2/min", "COST", 2);
assert.deepEqual([...refused.slice(0, 3), refused[5]], [0, 0, 1, 1]);
assert.ok(refused[3] > 0 && refused[3] <= 60_000_000 && refused[3] === refused[4]);

// REST adds charged, next_after_us and at_us, which a refund asks for.
const atUs = (await server.fcall("tollgate", 1, "tg:{node}", "2/min", "REST"))[8];
assert.equal(await server.fcall("tollgate_refund", 1, "tg:{node}", "2/min", 1, atUs), 1);
assert.equal((await server.fcall_ro("tollgate_peek", 1, "tg:{node}", "2/min"))[2], 1);
assert.equal(await server.fcall("tollgate_reset", 1, "tg:{node}", "2/min"), 1);

// Calling conventions of other limiters.
const bucket = await server.fcall("token_bucket", 1, "node:bucket", 15, 60, 3);
assert.deepEqual(bucket, ["allow", ["15 15;w=60;burst=3;policy=token_bucket", "60", "14"]]);

// A rolling limiter with two limits and three modes, as docs/moving.md shows it.
const limits = [{ interval: 3_600_000, max: 1000 }, { interval: 60_000, max: 10 }]; // milliseconds
const modes = { uniform: 0, binary: 1, nary: 2 };

async function attempt(id, n = 1, mode = "binary", buckets = 10_000) {
  const each = (value) => limits.map(value);
  const keys = each((_, index) => `requests:{${id}}:${index}`);
  const [actionsRemaining, acknowledged, wait] = await server.fcall(
    "rolling", keys.length, ...keys, modes[mode], n, Date.now() * 1000,
    ...each(() => 0), ...each((limit) => limit.max),
    ...each((limit) => (limit.interval * 1000) / buckets), ...each(() => buckets),
  );
  return { acknowledged, actionsRemaining, wait }; // wait in microseconds
}

assert.deepEqual(await attempt("node", 4), { acknowledged: 4, actionsRemaining: 6, wait: 0 });
assert.equal((await attempt("node", 7)).acknowledged, 0);
assert.equal((await attempt("node", 7, "nary")).acknowledged, 6);
const over = await attempt("node", 1, "uniform");
assert.deepEqual([over.acknowledged, over.actionsRemaining], [1, -1]);
assert.ok(over.wait > 0);

// What is wrong is an error reply, and changes nothing.
await assert.rejects(server.fcall("tollgate", 1, "tg:{node}", "2/parsec"), /column 3: expected a unit/);
assert.equal(await server.exists("tg:{node}"), 0);

server.disconnect();
console.log("node.mjs: ioredis gets what the guide says");
