"""Tollgate's functions from Python, by redis-py. Run by `cargo xtask clients`; docs/redis.md quotes it.

REDIS_URL names a server on which `tollgate redis install` was run. Exits with an error if a reply is not
what the guide says.
"""

import os

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")

server = redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), socket_timeout=1)
allowed, granted, left, retry_us, reset_us, by = server.fcall("tollgate", 1, "tg:{python}", "2/min")

assert (allowed, granted, left, retry_us, reset_us, by) == (1, 1, 1, 0, 60_000_000, 0)

# Two units where one is left: refused, nothing charged, and the wait is until the first comes back.
allowed, granted, left, retry_us, reset_us, by = server.fcall("tollgate", 1, "tg:{python}", "2/min", "COST", 2)
assert (allowed, granted, left, by) == (0, 0, 1, 1), (allowed, granted, left, by)
assert 0 < retry_us <= 60_000_000 and retry_us == reset_us, (retry_us, reset_us)

# More than ever fits: no wait helps.
assert server.fcall("tollgate", 1, "tg:{python}", "2/min", "COST", 3)[3] == -1

# REST adds charged, next_after_us and at_us, which a refund asks for.
at_us = server.fcall("tollgate", 1, "tg:{python}", "2/min", "REST")[8]
assert server.fcall("tollgate_refund", 1, "tg:{python}", "2/min", 1, at_us) == 1
assert server.fcall_ro("tollgate_peek", 1, "tg:{python}", "2/min")[2] == 1
assert server.fcall("tollgate_reset", 1, "tg:{python}", "2/min") == 1
assert server.exists("tg:{python}") == 0

# Two keys, all or none: the user has room and pays nothing, since the team has none.
both = ("tollgate_all", 2, "tg:{python:user}", "tg:{python:team}", "10/min", 1, "1/min", 1)
assert server.fcall(*both)[:1] == [1]
assert server.fcall(*both)[:1] == [0]
assert server.fcall("tollgate_peek", 1, "tg:{python:user}", "10/min")[2] == 9

# Calling conventions of other limiters: three a minute, ten an hour.
replies = [server.fcall("sliding_window", 1, "python:window", 3_600_000, 10, 60_000, 3) for _ in range(4)]
assert replies == [0, 0, 0, 2], replies
word, headers = server.fcall("fixed_window", 1, "python:fixed", 10, 60)
assert (word, headers) == (b"allow", [b"10", b"60", b"9"]), (word, headers)

# What is wrong is an error reply, and changes nothing.
try:
    server.fcall("tollgate", 1, "tg:{python}", "2/parsec")
except redis.ResponseError as error:
    assert "column 3: expected a unit" in str(error), error
else:
    raise AssertionError("a wrong policy was taken")
assert server.exists("tg:{python}") == 0

print("python.py: redis-py", redis.__version__, "gets what the guide says")
