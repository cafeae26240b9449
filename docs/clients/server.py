"""The Tollgate server from Python, by redis-py as it is. Run by `cargo xtask outsiders`.

TOLLGATE_PORT is where a server listens, TOLLGATE_TOKEN its token. Exits with an error if a reply is not what
it should be.
"""

import os

import redis

port = int(os.environ.get("TOLLGATE_PORT", "7379"))
token = os.environ["TOLLGATE_TOKEN"]


def checks(server, key):
    """A check, its reply as integers, and what is wrong as an error."""
    assert server.execute_command("TG.CHECK", key, "2/min") == [1, 1, 1, 0, 60_000_000, 0]
    allowed, granted, left, retry_us, reset_us, by = server.execute_command("TG.CHECK", key, "2/min", "COST", 2)
    assert (allowed, granted, left, by) == (0, 0, 1, 1), (allowed, granted, left, by)
    assert 0 < retry_us <= 60_000_000 and retry_us == reset_us, (retry_us, reset_us)
    try:
        server.execute_command("TG.CHECK", key, "2/parsec")
    except redis.ResponseError as error:
        assert "column 3: expected a unit" in str(error), error
    else:
        raise AssertionError("a wrong policy was taken")
    try:
        server.execute_command("TG.NOPE", key)
    except redis.ResponseError as error:
        assert "unknown command 'TG.NOPE'" in str(error), error
    else:
        raise AssertionError("an unknown command was taken")
    assert server.ping()


def pipelines(server, key):
    """Several commands at once, as they are and as a transaction."""
    for transaction in (False, True):
        pipeline = server.pipeline(transaction=transaction)
        for _ in range(3):
            pipeline.execute_command("TG.CHECK", f"{key}:{transaction}", "2/min")
        assert [reply[0] for reply in pipeline.execute()] == [1, 1, 0]


def questions(server, protocol):
    """What tools ask of a server."""
    info = server.info()
    assert info["loading"] == 0 and info["role"] == "master" and info["redis_version"].startswith("7."), info
    assert server.config_get("save") == {"save": ""}
    assert server.config_get("databases")["databases"] == "16"
    assert server.client_setname("outsider") and server.client_getname() in ("outsider", b"outsider")
    assert server.client_info()["lib-name"].startswith("redis-py"), server.client_info()
    assert server.client_info()["resp"] == str(protocol), server.client_info()
    assert len(server.client_list()) == 1
    assert server.command_count() > 10
    assert "tg.check" in {str(name).lower() for name in server.command()}
    assert server.command_getkeys("TG.CHECK", "a", "1/s") in (["a"], [b"a"])
    assert server.time()[0] > 1_600_000_000
    assert server.echo("hello") in ("hello", b"hello")


def databases(protocol):
    """SELECT before the first command."""
    server = redis.Redis(port=port, protocol=protocol, db=9)
    assert server.client_info()["db"] == 9
    checks(server, f"python:db:{protocol}")


def tokens(protocol):
    """A password is a token, whoever the user is."""
    free = redis.Redis(port=port, protocol=protocol)
    try:
        free.execute_command("TG.REFUND", "python", "2/min", 1, 1)
    except redis.exceptions.NoPermissionError:
        pass
    else:
        raise AssertionError("a refund without a token")
    for user in (None, "default", "someone"):
        server = redis.Redis(port=port, protocol=protocol, username=user, password=token)
        assert server.execute_command("TG.REFUND", "python", "2/min", 1, 1) == 0
    wrong = redis.Redis(port=port, protocol=protocol, password="nonsense", retry=None)
    try:
        wrong.ping()
    except redis.AuthenticationError:
        pass
    else:
        raise AssertionError("a wrong token was taken")


def keys(server, key):
    """The counters that limiters written over INCR and EXPIRE keep."""
    server.delete(key)
    assert server.incr(key) == 1 and server.incrby(key, 4) == 5
    assert server.ttl(key) == -1 and server.ttl(f"{key}:none") == -2
    assert server.expire(key, 100) and 0 < server.ttl(key) <= 100 and 0 < server.pttl(key) <= 100_000
    assert server.get(key) in ("5", b"5") and server.exists(key) == 1 and server.type(key) in ("string", b"string")
    assert server.pipeline().incr(key).expire(key, 50).ttl(key).execute() == [6, True, 50]
    assert server.delete(key) == 1 and server.get(key) is None


for protocol in (2, 3):
    server = redis.Redis(port=port, protocol=protocol)
    checks(server, f"python:{protocol}")
    pipelines(server, f"python:pipe:{protocol}")
    questions(server, protocol)
    databases(protocol)
    tokens(protocol)
    keys(server, f"python:keys:{protocol}")

server = redis.Redis(port=port)
reply = server.execute_command("TG.CHECK", "user:42", "100/min")
allowed, granted, remaining, retry_us, reset_us, limited_by = reply
assert allowed == 1 and granted == 1 and limited_by == 0

print("server.py: redis-py", redis.__version__, "speaks with the server, in RESP2 and RESP3")
