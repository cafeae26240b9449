// The Tollgate server under --cluster from Node, by ioredis' Cluster as it is. Run by `cargo xtask outsiders`.
//
// TOLLGATE_PORT is where a server in cluster mode listens. Exits with an error if a reply is not what it should be.

import assert from "node:assert/strict";
import { Cluster } from "ioredis";

const port = Number(process.env.TOLLGATE_PORT ?? 7379);

// Checks, calls of another limiter, and counters, on keys of many slots.
async function checks(cluster, key) {
  for (let number = 0; number < 20; number += 1) {
    assert.deepEqual(await cluster.call("TG.CHECK", `${key}:${number}`, "2/min"), [1, 1, 1, 0, 60_000_000, 0]);
    const [word] = await cluster.fcall("fixed_window", 1, `${key}:window:${number}`, 2, 60);
    assert.equal(word, "allow");
    assert.deepEqual([await cluster.incr(`${key}:n:${number}`), await cluster.del(`${key}:n:${number}`)], [1, 1]);
  }
  await assert.rejects(cluster.eval("return 1", 1, key), /this server runs no Lua/);
  await assert.rejects(cluster.call("TG.CHECK", key, "2/parsec"), /column 3: expected a unit/);
}

// A pipeline and a transaction; of a cluster both want keys of one node, which all are.
async function pipelines(cluster, key) {
  const pipeline = cluster.pipeline();
  for (let number = 0; number < 40; number += 1) pipeline.incr(`{${key}}:${number % 10}`);
  const replies = await pipeline.exec();
  assert.deepEqual(replies.map(([error, reply]) => [error, reply]), [...Array(40).keys()].map((n) => [null, 1 + Math.floor(n / 10)]));
  const exec = await cluster.multi().incr(`{${key}}:0`).ttl(`{${key}}:0`).exec();
  assert.deepEqual(exec, [[null, 5], [null, -1]]);
}

for (const options of [{}, { scaleReads: "slave" }, { redisOptions: { protocol: 3 } }]) {
  const cluster = new Cluster([{ host: "127.0.0.1", port }], { ...options, clusterRetryStrategy: null });
  const name = JSON.stringify(options).replace(/\W/g, "");
  await checks(cluster, `node:cluster:${name}`);
  await pipelines(cluster, `node:cluster:pipe:${name}`);
  assert.deepEqual(cluster.nodes("master").map((node) => node.options.port), [port]);
  assert.match(await cluster.cluster("INFO"), /cluster_state:ok/);
  cluster.disconnect();
}

console.log("cluster.mjs: Cluster of ioredis speaks with the server");
