"""The Tollgate server under --cluster from Python, by redis-py's RedisCluster as it is. Run by `cargo xtask outsiders`.

TOLLGATE_PORT is where a server in cluster mode listens. Exits with an error if a reply is not what it should be.
"""

import os

import redis
from redis.cluster import RedisCluster

port = int(os.environ.get("TOLLGATE_PORT", "7379"))


def checks(cluster, key):
    """Checks, calls of another limiter, and counters, on keys of many slots."""
    for number in range(20):
        assert cluster.execute_command("TG.CHECK", f"{key}:{number}", "2/min") == [1, 1, 1, 0, 60_000_000, 0]
        reply = cluster.fcall("fixed_window", 1, f"{key}:window:{number}", 2, 60)
        assert reply[0] in ("allow", b"allow"), reply
        assert cluster.incr(f"{key}:counter:{number}") == 1 and cluster.delete(f"{key}:counter:{number}") == 1
    script = "local a = redis.call('GET', KEYS[1]) return a"
    try:
        cluster.eval(script, 1, key)
    except redis.ResponseError as error:
        assert "this server runs no Lua" in str(error), error
    else:
        raise AssertionError("an unknown script was run")


def pipelines(cluster, key):
    """A pipeline over many slots; the client tells its parts apart and puts the replies in order."""
    pipeline = cluster.pipeline()
    for number in range(40):
        pipeline.incr(f"{key}:{number % 10}")
    assert pipeline.execute() == [1 + number // 10 for number in range(40)]
    # Keys of several slots in one call are split or refused by the client itself.
    assert cluster.delete(*(f"{key}:{number}" for number in range(10))) == 10


def topology(cluster):
    """One primary, which owns every slot."""
    nodes = cluster.get_nodes()
    assert [(node.port, node.server_type) for node in nodes] == [(port, "primary")], nodes
    assert cluster.cluster_info(target_nodes=nodes[0])["cluster_state"] == "ok"
    assert len(cluster.cluster_nodes()) == 1
    assert cluster.cluster_keyslot("foo") == 12182 == cluster.keyslot("foo")
    assert cluster.cluster_myid(nodes[0])


for protocol in (2, 3):
    for reads in (False, True):
        cluster = RedisCluster(host="127.0.0.1", port=port, protocol=protocol, read_from_replicas=reads)
        checks(cluster, f"python:cluster:{protocol}:{reads}")
        pipelines(cluster, f"python:cluster:pipe:{protocol}:{reads}")
        topology(cluster)
        cluster.close()

cluster = RedisCluster(host="127.0.0.1", port=port)
allowed, granted, remaining, retry_us, reset_us, limited_by = cluster.execute_command("TG.CHECK", "user:42", "100/min")
assert allowed == 1 and granted == 1 and limited_by == 0

# A client that is not in cluster mode sees a server of the same keys; only SELECT is refused, as a cluster does.
server = redis.Redis(port=port)
assert server.get("python:cluster:none") is None and server.info()["cluster_enabled"] == 1
try:
    redis.Redis(port=port, db=1).ping()
except redis.ResponseError as error:
    assert "SELECT is not allowed in cluster mode" in str(error), error
else:
    raise AssertionError("a cluster has one database")

print("cluster.py: RedisCluster of redis-py", redis.__version__, "speaks with the server, in RESP2 and RESP3")
