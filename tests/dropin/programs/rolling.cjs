// A client of the rolling limiter with modes, written after that limiter's document, by ioredis 2.5 or node redis 2.8.
//
// Run by `cargo xtask dropin`. LIBRARY is the client library, REDIS_URL names the server, SCRIPTS the folder of the
// script that it loads. PUBLISHED is 1 where the server knows the published script by its SHA-1. The caller gives the
// time, so no clock is waited for. Exits with an error if a result is not what the document says.

const assert = require("node:assert/strict");
const { createHash } = require("node:crypto");
const { readFileSync } = require("node:fs");
const { promisify } = require("node:util");
const library = process.env.LIBRARY;
const Redis = require(library);

const version = require(`${library}/package.json`).version;
const text = readFileSync(`${process.env.SCRIPTS}/rolling.lua`, "utf8");
const own = createHash("sha1").update(text).digest("hex");
const sha = process.env.PUBLISHED === "1" ? "1132da6df6e0d836fd4602c66b2a6623c8068413" : own;
const modes = { uniform: 0, binary: 1, nary: 2 };

// The limiter: a factory of functions with a callback, as the document describes them.
function rateLimiterFactory(options) {
  const { redis, mode = "binary", namespace = "", now = () => Date.now() * 1000 } = options;
  const single = [["", options]];
  const limits = options.limits ? Object.entries(options.limits) : single;
  const each = (value) => limits.map(([, limit]) => value(limit));
  const buckets = (limit) => limit.buckets || 10_000;

  return function rateLimiter(...args) {
    const callback = args.pop();
    const [id = "", n = 1] = args;
    const keys = limits.map(([index]) => [namespace, index, id].filter((part) => part !== "").join(":"));
    const call = [
      keys.length, ...keys, modes[mode], n, now(),
      ...each((limit) => (limit.minDifference || 0) * 1000), ...each((limit) => limit.maxInInterval),
      ...each((limit) => (limit.interval * 1000) / buckets(limit)), ...each(buckets),
    ];
    const done = (error, reply) => {
      if (error) return callback(error);
      const [actionsRemaining, acknowledged, wait] = reply;
      return callback(null, { acknowledged, actionsRemaining, wait });
    };
    redis.evalsha(options.sha || sha, ...call, (error, reply) => {
      if (error && error.message.startsWith("NOSCRIPT")) return redis.eval(text, ...call, done);
      return done(error, reply);
    });
  };
}

const url = process.env.REDIS_URL;
const redis = library === "redis" ? Redis.createClient(url) : new Redis(url);
const send = (command, ...args) => promisify(redis[command].bind(redis))(...args);
const namespace = `requestRateLimiter:${library}`;
const start = 1_790_000_000_000_000;

// A limiter whose clock is set by hand, in microseconds after the start.
function limiterAt(options) {
  const clock = { at: 0 };
  const limiter = rateLimiterFactory({ redis, namespace, now: () => start + clock.at, ...options });
  const ask = promisify(limiter);
  return (at, ...args) => {
    clock.at = at;
    return ask(...args);
  };
}

// The first example: 10 in a second, 100 ms apart, in 1000 buckets of which half a one is waited for.
async function example() {
  const ask = limiterAt({ interval: 1000, maxInInterval: 10, minDifference: 100, buckets: 1000, mode: "binary" });
  assert.deepEqual(await ask(0, "user"), { acknowledged: 1, actionsRemaining: 9, wait: 100_000 });
  assert.deepEqual(await ask(50_000, "user"), { acknowledged: 0, actionsRemaining: 9, wait: 50_000 });
  for (let count = 1; count < 9; count += 1) {
    const told = await ask(count * 100_000, "user");
    assert.deepEqual(told, { acknowledged: 1, actionsRemaining: 9 - count, wait: 100_000 });
  }
  assert.deepEqual(await ask(900_000, "user"), { acknowledged: 1, actionsRemaining: 0, wait: 100_500 });
  assert.deepEqual(await ask(1_000_000, "user"), { acknowledged: 0, actionsRemaining: 0, wait: 500 });
  // Exactly after the wait it is acknowledged.
  assert.equal((await ask(1_000_500, "user")).acknowledged, 1);
  // The identifier may be left out.
  assert.equal((await ask(0)).acknowledged, 1);
}

const twoLimits = [{ interval: 60 * 60_000, maxInInterval: 1000 }, { interval: 60_000, maxInInterval: 10 }];

// Two limits and batches of 5, in the three modes. The braces keep the keys of one id in one slot of a cluster.
async function batches() {
  const [binary, nary, uniform] = ["binary", "nary", "uniform"].map((mode) => limiterAt({ limits: twoLimits, mode }));
  const binaryReply = [
    [5, { acknowledged: 5, actionsRemaining: 5, wait: 0 }],
    [4, { acknowledged: 4, actionsRemaining: 1, wait: 60_003_000 }],
    [5, { acknowledged: 0, actionsRemaining: 1, wait: 60_003_000 }],
  ];
  for (const [n, expected] of binaryReply) assert.deepEqual(await binary(0, "{batch}", n), expected);
  assert.deepEqual(await nary(0, "{batch}", 5), { acknowledged: 1, actionsRemaining: 0, wait: 60_003_000 });
  assert.equal((await nary(0, "{batch}", 5)).acknowledged, 0);
  const over = await uniform(0, "{batch}", 5);
  assert.deepEqual([over.acknowledged, over.actionsRemaining], [5, -5]);
  assert.deepEqual(await binary(60_003_000, "{batch}", 5), { acknowledged: 5, actionsRemaining: 5, wait: 0 });
}

// Limits that have names, which become part of their keys.
async function named() {
  const limits = { minute: { interval: 60_000, maxInInterval: 2 }, second: { interval: 1000, maxInInterval: 1 } };
  const ask = limiterAt({ limits });
  assert.equal((await ask(0, "{named}")).acknowledged, 1);
  assert.equal((await ask(1, "{named}")).acknowledged, 0);
  assert.equal((await ask(1_000_050, "{named}")).acknowledged, 1);
  assert.equal((await ask(2_000_100, "{named}")).acknowledged, 0);
}

async function crowd() {
  const ask = limiterAt({ interval: 60_000, maxInInterval: 10 });
  const told = await Promise.all(Array.from({ length: 50 }, () => ask(0, "crowd")));
  assert.equal(told.filter(({ acknowledged }) => acknowledged === 1).length, 10);
}

// A script that the server may not have: EVALSHA, NOSCRIPT, EVAL.
async function fallback() {
  await send("script", "flush");
  const ask = limiterAt({ interval: 1000, maxInInterval: 1, sha: own });
  assert.equal((await ask(0, "text")).acknowledged, 1);
  assert.equal((await ask(0, "text")).acknowledged, 0);
  assert.equal(await send("script", "load", text), own);
}

async function mistakes() {
  const ask = limiterAt({ interval: 1000, maxInInterval: 1 });
  for (const n of [0, -1, 1.5, "many"]) await assert.rejects(ask(0, "wrong", n), /expected/, `n = ${n}`);
  assert.equal((await ask(0, "wrong", 1)).acknowledged, 1);
}

async function cleared() {
  const ids = ["user", "crowd", "text", "wrong", "0:{batch}", "1:{batch}", "minute:{named}", "second:{named}"];
  const keys = [namespace, ...ids.map((id) => `${namespace}:${id}`)];
  for (const key of keys) await send("del", key);
  for (const key of keys) assert.equal(await send("exists", key), 0);
}

async function main() {
  const parts = [cleared, fallback, example, batches, named, crowd, mistakes, cleared];
  for (const part of parts) await part();
  redis.quit();
  console.log(`rolling.cjs: ${library} ${version}: ${parts.length} parts`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
