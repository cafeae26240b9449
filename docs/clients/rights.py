"""The user of docs/redis.md, who may call Tollgate and nothing else, goes through everything the Lua does.

Run by `cargo xtask clients` after the guide has made the user. REDIS_URL names the server, GATE the user and
its password, TOLLGATE the program `tollgate`.
"""

import os
import subprocess

import redis

user, password = os.environ["GATE"].split(":")
gate = redis.Redis.from_url(os.environ["REDIS_URL"], username=user, password=password)

for policy in ["10/min", "10/s gcra", "10/min fixed", "9/min bucket burst=3", "9/h slots resolution=1min",
               "9/min estimate", "9/s decay factor=2", "9/min spacing=1s", "1/s, 9/h"]:
    key = "tg:{rights}" + policy.replace("/", "-").replace(" ", "-")
    assert gate.fcall("tollgate", 1, key, policy)[0] == 1, policy
    at_us = gate.fcall_ro("tollgate_peek", 1, key, policy, "FULL")[8]
    gate.fcall("tollgate_refund", 1, key, policy, 1, at_us)
    assert gate.fcall("tollgate_reset", 1, key, policy) == 1, policy
assert gate.fcall("tollgate_all", 2, "tg:{rights}1", "tg:{rights}2", "5/min", 1, "5/min", 1)[0] == 1

# A log that grows until the key becomes a hash, shrinks again and is forgotten.
for _ in range(1_000):
    gate.fcall("tollgate", 1, "tg:{rights}long", "1000/h")
assert gate.fcall("tollgate", 1, "tg:{rights}long", "1000/h")[0] == 0
assert gate.fcall("tollgate_reset", 1, "tg:{rights}long", "1000/h") == 1
for _ in range(300):
    gate.fcall("tollgate", 1, "tg:{rights}short", "1000/200ms")

# The same call as a script.
script = subprocess.check_output([os.environ["TOLLGATE"], "redis", "script", "tollgate"])
assert gate.eval(script, 1, "tg:{rights}script", "5/min")[:3] == [1, 1, 4]

for forbidden in [("FLUSHALL",), ("GET", "session:1"), ("FCALL", "tollgate", 1, "session:1", "1/s"),
                  ("FUNCTION", "LIST"), ("FUNCTION", "FLUSH"), ("CONFIG", "GET", "save"), ("KEYS", "*"),
                  ("SCRIPT", "FLUSH")]:
    try:
        gate.execute_command(*forbidden)
    except redis.exceptions.NoPermissionError:
        continue
    raise AssertionError(f"{user} may {' '.join(map(str, forbidden))}")

print("rights.py: the user of the guide may do what Tollgate needs, and nothing else")
