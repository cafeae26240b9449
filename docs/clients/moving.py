"""What docs/moving.md says of old keys, tried: keys as the old limiters left them, then our calls on them.

Run by `cargo xtask clients`. REDIS_URL names a server on which `tollgate redis install` was run.
"""

import os
import time

import redis

server = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def refuses(key, *call):
    """The call answers WRONGTYPE, and the key stays as it was."""
    before, lives = server.dump(key), server.pttl(key)
    try:
        server.fcall(*call)
    except redis.ResponseError as error:
        assert str(error).startswith("WRONGTYPE"), error
    else:
        raise AssertionError(f"{call} took a foreign key")
    assert server.dump(key) == before and (lives < 0) == (server.pttl(key) < 0), key


def leaves(key, *call):
    """The call is decided at a name of its own, and the key stays as it was."""
    before = server.dump(key)
    assert server.fcall(*call) == 0, call
    assert server.dump(key) == before and server.exists(f"ns:{{{key}}}") == 1, key


def at_old_keys():
    server.rpush("old:slots", "1000:1")
    leaves("old:slots", "slot_window", 1, "old:slots", 1, "ns", "[[1,5,1]]", 1000, 1)
    server.set("old:ar1", "1000:1.5", ex=60)
    leaves("old:ar1", "ar1", 1, "old:ar1", 1, "ns", "[[2,2,1]]", 1000, 1)
    server.zadd("old:window", {"1790000000000000": 1790000000000000})
    refuses("old:window", "sliding_window", 1, "old:window", 60_000, 10)
    server.set("old:fixed", 9, ex=60)
    refuses("old:fixed", "fixed_window", 1, "old:fixed", 10, 60)
    server.hset("old:bucket", mapping={"tokens": 2, "at": 1790000000})
    refuses("old:bucket", "token_bucket", 1, "old:bucket", 15, 60, 3)
    server.zadd("old:rolling", {"1 1790000000000000": 1790000000000000})
    refuses("old:rolling", "rolling", 1, "old:rolling", 1, 1, 1790000000000000, 0, 10, 100, 10_000)
    server.set("tg:{old}", "hello")
    refuses("tg:{old}", "tollgate", 1, "tg:{old}", "10/min")


def now():
    """The server's clock in seconds, not in the last ones of a minute."""
    while server.time()[0] % 60 > 50:
        time.sleep(1)
    return server.time()[0]


def at_old_counters():
    seconds = now()
    minute = seconds // 60 % 60
    # A token the trigger knew: the count of this minute and the usage go on.
    server.set(f"{{api:known}}:{minute}", 5, ex=59)
    server.hset("{api:known}:data", mapping={"last": seconds, "ops": 17})
    allowed, count, at, last, ops = server.fcall("api_counter", 1, "{api:known}", 7)
    assert (allowed, count, at, ops) == (1, 6, minute, 18) and last >= seconds, (allowed, count, at, last, ops)
    assert 0 < server.ttl(f"{{api:known}}:{minute}") <= 60
    assert 0 < server.ttl("{api:known}:data") <= 366 * 86_400
    # Old servers that still count in the same minute are seen.
    server.incr(f"{{api:known}}:{minute}")
    assert server.fcall("api_counter", 1, "{api:known}", 8)[:2] == [1, 8]
    assert server.fcall("api_counter", 1, "{api:known}", 8)[:2] == [0, 8]
    # A token without a data hash: this minute goes on, and the usage begins.
    server.set(f"{{api:bare}}:{minute}", 5, ex=59)
    allowed, count, _, _, ops = server.fcall("api_counter", 1, "{api:bare}", 7)
    assert (allowed, count, ops) == (1, 6, 1), (allowed, count, ops)
    assert server.get(f"{{api:bare}}:{minute}") == "6"
    # Something else under those names.
    server.set("{api:other}:data", "hello")
    refuses("{api:other}:data", "api_counter", 1, "{api:other}", 7)


at_old_keys()
at_old_counters()
print("moving.py: old keys are answered as the guide says")
