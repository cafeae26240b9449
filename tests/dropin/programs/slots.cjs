// A client of o1.rate-limiter, written after that limiter's document, by ioredis 2.5 or the current one.
//
// Run by `cargo xtask dropin`. REDIS_URL names the server, SCRIPTS the folder of the scripts that it loads. PUBLISHED is
// 1 where the server knows the published scripts by their SHA-1; CLUSTER is 1 where the client is to be ioredis Cluster.
// The caller gives the time, so no clock is waited for. Exits with an error if a reply is not what the document says.

const assert = require("node:assert/strict");
const { createHash } = require("node:crypto");
const { readFileSync } = require("node:fs");
const Redis = require("ioredis");

const version = require("ioredis/package.json").version;
const prefix = `o1:${version}:`;
const published = {
  slot_window: "1533c10715a2840138ba6a19f2bbd52e8ba389fd",
  ar1: "c1099fa79e595bf443041fbc8f72ea50999f6fa6",
};

function connect() {
  const url = new URL(process.env.REDIS_URL);
  const place = { host: url.hostname, port: Number(url.port) };
  return process.env.CLUSTER === "1" ? new Redis.Cluster([place]) : new Redis(process.env.REDIS_URL);
}

class RateLimiter {
  constructor(redis, script, namespace, limits, known = process.env.PUBLISHED === "1") {
    this.redis = redis;
    this.namespace = namespace;
    this.limits = JSON.stringify(limits);
    this.text = readFileSync(`${process.env.SCRIPTS}/${script}.lua`, "utf8");
    this.sha = known ? published[script] : createHash("sha1").update(this.text).digest("hex");
  }

  // By its SHA-1, and by its text where the server does not know it.
  async count(key, events, now, ...wantWait) {
    const args = [1, prefix + key, events, this.namespace, this.limits, now, ...wantWait];
    try {
      return await this.redis.evalsha(this.sha, ...args);
    } catch (error) {
      if (!error.message.startsWith("NOSCRIPT")) throw error;
      return this.redis.eval(this.text, ...args);
    }
  }

  wait(key, events, now) {
    return this.count(key, events, now, 1);
  }

  reset(key, now) {
    return this.count(key, -1, now);
  }
}

// Once every five seconds, and five times an hour in slots of ten minutes.
const logins = [
  { maxOcurrences: 1, limitDuration: 5, durationResolution: 1 },
  { maxOcurrences: 5, limitDuration: 3600, durationResolution: 10 * 60 },
];
// The same in the form that its scripts read.
const pairs = [[1, 5, 1], [5, 3600, 600]];
const start = 2_983_333 * 600;

async function documented(redis) {
  for (const [name, limits] of [["objects", logins], ["arrays", pairs]]) {
    const limiter = new RateLimiter(redis, "slot_window", "login", limits);
    await limiter.reset(name, start);
    assert.equal(await limiter.wait(name, 0, start), 0);
    assert.equal(await limiter.wait(name, 1, start), 0);
    assert.equal(await limiter.wait(name, 1, start), 5);
    assert.equal(await limiter.wait(name, 0, start + 3), 2);
    // What was refused counts too.
    for (const seconds of [5, 10, 15]) assert.equal(await limiter.wait(name, 1, start + seconds), 0);
    assert.equal(await limiter.wait(name, 1, start + 20), 3580);
    // Without want_wait it says only whether a limit is exceeded.
    assert.equal(await limiter.count(name, 0, start + 30), 1);
    assert.equal(await limiter.count(name, 0, start + 3600), null);
    assert.equal(await limiter.count(name, 1, start + 3600), null);
    assert.equal(await limiter.count(name, 1, start + 3600), 1);
    assert.equal(await limiter.reset(name, start + 3600), null);
    assert.equal(await limiter.wait(name, 1, start + 3600), 0);
  }
}

// Three an hour in slots of 20 minutes: the drawing of the document.
async function slots(redis) {
  const limiter = new RateLimiter(redis, "slot_window", "drawn", [[3, 3600, 20 * 60]]);
  const begin = 1_491_666 * 1200;
  await limiter.reset("slots", begin);
  for (const minutes of [0, 20, 40]) assert.equal(await limiter.wait("slots", 1, begin + minutes * 60), 0);
  assert.equal(await limiter.wait("slots", 0, begin + 2401), 0);
  assert.equal(await limiter.wait("slots", 1, begin + 2402), 2398);
  assert.equal(await limiter.count("slots", 0, begin + 3599), 1);
  // The oldest slot leaves, and its one event with it.
  assert.equal(await limiter.count("slots", 0, begin + 3600), null);
}

async function milliseconds(redis) {
  const limiter = new RateLimiter(redis, "slot_window", "ms", [[2, 1000, 100]]);
  const begin = start * 1000;
  await limiter.reset("ms", begin);
  assert.deepEqual(
    [await limiter.count("ms", 1, begin), await limiter.count("ms", 1, begin + 99), await limiter.count("ms", 1, begin)],
    [null, null, 1],
  );
  assert.equal(await limiter.wait("ms", 0, begin + 150), 850);
  assert.equal(await limiter.count("ms", 1, begin + 1000), null);
}

async function decaying(redis) {
  const limiter = new RateLimiter(redis, "ar1", "level", [[2, 2, 1]]);
  await limiter.reset("ar1", start);
  assert.equal(await limiter.count("ar1", 0, start), null);
  assert.equal(await limiter.wait("ar1", 4, start), 2);
  assert.equal(await limiter.wait("ar1", 1, start + 2), 0);
  assert.equal(await limiter.wait("ar1", 1, start + 2), 2);
  assert.equal(await limiter.reset("ar1", start + 2), null);
  assert.equal(await limiter.count("ar1", 2, start + 2), null);
}

// Many callers at once: none is counted twice, none is lost.
async function crowd(redis) {
  const limiter = new RateLimiter(redis, "slot_window", "crowd", [[5, 60, 1]]);
  const callers = Array.from({ length: 40 }, (_, number) => `crowd:${number % 2}`);
  await Promise.all(["crowd:0", "crowd:1"].map((key) => limiter.reset(key, start)));
  const told = await Promise.all(callers.map((key) => limiter.count(key, 1, start)));
  for (const parity of [0, 1]) {
    const passed = told.filter((reply, number) => number % 2 === parity && reply === null);
    assert.equal(passed.length, 5);
  }
}

// A text that the server may not have: EVALSHA, NOSCRIPT, EVAL.
async function fallback(redis) {
  const limiter = new RateLimiter(redis, "slot_window", "text", [[1, 5, 1]], false);
  await redis.script("flush");
  assert.equal(await limiter.reset("text", start), null);
  assert.equal(await limiter.wait("text", 1, start), 0);
  assert.equal(await limiter.wait("text", 1, start), 5);
  assert.equal(await redis.script("load", limiter.text), limiter.sha);
  // ioredis defines commands of scripts by itself.
  redis.defineCommand("slots", { numberOfKeys: 1, lua: limiter.text });
  assert.equal(await redis.slots(`${prefix}text`, 0, "text", "[[1,5,1]]", start, 1), 5);
}

async function mistakes(redis) {
  for (const limits of ["", "[]", "[[1,5]]", "[[1,60,100]]", "[[-1,60,1]]"]) {
    const limiter = new RateLimiter(redis, "slot_window", "wrong", [[1, 5, 1]]);
    limiter.limits = limits;
    await assert.rejects(limiter.count("wrong", 1, start), /^(Reply)?Error: ERR .*expected/s, limits);
  }
  assert.equal(await redis.exists(`${prefix}wrong`), 0);
}

// What its tests do before and after: look at the keys, and remove them.
async function keys(redis) {
  const nodes = process.env.CLUSTER === "1" ? redis.nodes("master") : [redis];
  const names = (await Promise.all(nodes.map((node) => node.keys(`*${prefix}*`)))).flat();
  assert.ok(names.length > 0);
  for (const name of names) {
    const ttl = await redis.ttl(name);
    assert.ok(ttl > 0 && ttl <= 4_000_000, `${name}: ${ttl}`);
    assert.equal(await redis.exists(name), 1);
    assert.equal(await redis.del(name), 1);
    assert.equal(await redis.exists(name), 0);
    assert.equal(await redis.ttl(name), -2);
  }
  const limiter = new RateLimiter(redis, "slot_window", "login", pairs);
  assert.equal(await limiter.wait("arrays", 1, start + 3600), 0);
  assert.equal(await limiter.reset("arrays", start + 3600), null);
}

async function main() {
  const redis = connect();
  const parts = [documented, slots, milliseconds, decaying, crowd, mistakes, keys];
  // A cluster sends SCRIPT to one node alone.
  if (process.env.CLUSTER !== "1") parts.unshift(fallback);
  for (const part of parts) await part(redis);
  await redis.quit();
  console.log(`slots.cjs: ioredis ${version}${process.env.CLUSTER === "1" ? " Cluster" : ""}: ${parts.length} parts`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
