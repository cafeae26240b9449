"""Every command that the clients' libraries send at connect and that the originals' suites use for set-up and tear-down:
what a server answers beside what redis-server answers.

Run by `cargo xtask dropin`. REDIS_URL names the server, BASE_URL a redis-server with Tollgate's functions; SENT holds
the commands that the other programs were seen to send, each of which must be in the table. SCRIPTS is the folder of the
scripts. PUBLISHED is 1 where the server runs no Lua but knows the published scripts. CLUSTERED is 1 where the keys are
in a cluster, which has one database. Exits with an error if a reply differs.
"""

import os
import re
import socket
from urllib.parse import urlparse

runs_no_lua = os.environ.get("PUBLISHED") == "1"
clustered = os.environ.get("CLUSTERED") == "1"


def script(name):
    with open(f"{os.environ['SCRIPTS']}/{name}.lua", encoding="utf-8") as file:
        return file.read()


class Same:
    """The reply that redis-server gives; of an error, its code."""

    def check(self, base, found):
        return comparable(base) == comparable(found)

    def __str__(self):
        return "the same reply"


class Shape(Same):
    """A reply of the same kind, such as a text or a list."""

    def check(self, base, found):
        return shape(base) == shape(found)

    def __str__(self):
        return "a reply of the same kind"


class Newer(Same):
    """What Redis since 7.2 answers, or the error of an older one, which does not know it."""

    def __init__(self, reply):
        self.reply = reply

    def check(self, base, found):
        return found == self.reply or isinstance(base, Failed) and isinstance(found, Failed)

    def __str__(self):
        return f"{self.reply!r} or an error"


class Refused(Same):
    """The same reply, or an error that names the way out."""

    def __init__(self, way_out):
        self.way_out = way_out

    def check(self, base, found):
        told = isinstance(found, Failed) and re.search(self.way_out, found) is not None
        return told if runs_no_lua else super().check(base, found)

    def __str__(self):
        return f"an error that says {self.way_out!r}" if runs_no_lua else super().__str__()


class Database(Same):
    """The same reply; over a cluster the refusal of a cluster, since it has one database."""

    def check(self, base, found):
        if not clustered:
            return super().check(base, found)
        return isinstance(found, Failed) and "cluster" in found.lower()


class Scan(Same):
    """The same reply; over a cluster, which is scanned node by node, a reply of the same kind."""

    def check(self, base, found):
        return shape(base) == shape(found) if clustered else super().check(base, found)


same, shaped, database, scan = Same(), Shape(), Database(), Scan()
no_lua = Refused(r"runs no Lua.*--script SHA1=DIALECT.*scope script")
not_clustered = Refused("unknown command|cluster support disabled")
window, count = script("sliding_window"), [3_600_000, 2]
unknown_sha = "0" * 40

# What is asked, and what is expected of it. The rows are sent in this order on one connection.
TABLE = [
    # ioredis 2.5 and 6, redis 2.8 and 6, redis-py, eredis, Redix and RedisCluster at connect.
    (["INFO"], shaped), (["INFO", "server"], shaped), (["PING"], same), (["PING", "hello"], same),
    (["SELECT", "0"], same), (["ECHO", "hello"], same), (["TIME"], shaped), (["ROLE"], same),
    (["CLIENT", "SETNAME", "limiter"], same), (["CLIENT", "GETNAME"], same), (["CLIENT", "ID"], shaped),
    (["CLIENT", "SETINFO", "LIB-NAME", "redis-py"], Newer("OK")),
    (["CLIENT", "SETINFO", "LIB-VER", "8.1.0"], Newer("OK")),
    (["CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "internal-ip"], Newer("OK")),
    (["CLIENT", "TRACKING", "OFF"], same), (["CLIENT", "NO-EVICT", "OFF"], Newer("OK")),
    (["CLIENT", "LIST"], shaped), (["CLIENT", "INFO"], shaped),
    (["HELLO", "4"], same), (["HELLO", "2"], shaped), (["COMMAND", "COUNT"], shaped), (["COMMAND", "DOCS", "GET"], shaped),
    (["COMMAND", "INFO", "nothing"], same), (["CONFIG", "GET", "save"], shaped),
    (["READONLY"], not_clustered), (["READWRITE"], not_clustered),
    (["AUTH", "wrong", "wrong"], same), (["ACL", "WHOAMI"], Refused("unknown command")),
    (["CLUSTER", "SLOTS"], same), (["CLUSTER", "SHARDS"], same), (["CLUSTER", "NODES"], same), (["CLUSTER", "INFO"], shaped),
    # Set-up: an empty database.
    (["SELECT", "9"], database), (["FLUSHALL"], same), (["FLUSHDB"], same), (["FLUSHDB", "ASYNC"], same),
    (["FLUSHALL", "SYNC"], same), (["FLUSHDB", "NOW"], same), (["KEYS", "*"], same),
    (["SCAN", "0"], scan), (["SCAN", "0", "MATCH", "testkey-*", "COUNT", "100"], scan), (["SCAN", "x"], same),
    # The counter a minute.
    (["GET", "{api:table}:54"], same), (["MULTI"], same), (["INCR", "{api:table}:54"], same),
    (["EXPIRE", "{api:table}:54", "59"], same), (["EXEC"], same), (["GET", "{api:table}:54"], same),
    (["INCRBY", "{api:table}:54", "2"], same), (["TTL", "{api:table}:54"], shaped), (["TYPE", "{api:table}:54"], same),
    (["HGETALL", "{api:other}:data"], same), (["HGET", "{api:other}:data", "ops"], same),
    (["HMGET", "{api:other}:data", "ops", "last"], same), (["HKEYS", "{api:other}:data"], same),
    (["HLEN", "{api:other}:data"], same), (["HEXISTS", "{api:other}:data", "ops"], same),
    (["HGETALL", "{api:table}:54"], same), (["EXEC"], same), (["MULTI"], same), (["DISCARD"], same), (["UNWATCH"], same),
    (["TFUNCTION", "LOAD", "REPLACE", "#!js name=other"], Refused("runs no JavaScript.*keeps by itself")),
    (["DEL", "{api:table}:54", "{api:table}:data"], shaped), (["EXISTS", "{api:table}:54"], same),
    # Scripts, by SHA-1 and by text.
    (["SCRIPT", "FLUSH"], same), (["EVALSHA", unknown_sha, "1", "testkey-1", "1000", "1"], same),
    (["SCRIPT", "EXISTS", unknown_sha], same), (["SCRIPT", "LOAD", window], same),
    (["EVAL", window, "1", "testkey-1", *count], same), (["EVAL", window, "1", "testkey-1", "x"], same),
    (["EVAL", window, "x"], same), (["EVALSHA", unknown_sha], same), (["SCRIPT", "NOTHING"], same),
    (["EVAL", "return 1", "0"], no_lua), (["EVAL", "return redis.call('KEYS', '*')", "0"], no_lua),
    (["SCRIPT", "LOAD", "return {'allow', {'1'}}"], no_lua),
    # Functions.
    (["FUNCTION", "LOAD", "REPLACE", script("library")], same), (["FUNCTION", "LOAD", script("library")], same),
    (["FUNCTION", "LOAD", "REPLACE", "#!lua name=other\nreturn 1"], Refused("runs no Lua")),
    (["FUNCTION", "LIST", "LIBRARYNAME", "tollgate"], shaped), (["FCALL", "sliding_window", "1", "testkey-1", *count], same),
    (["FCALL", "sliding_window", "1", "testkey-1", *count], same), (["FCALL", "nothing", "0"], same),
    (["FCALL", "sliding_window", "1", "testkey-1", "x"], same),
    # What a suite looks at, and tear-down.
    (["EXISTS", "testkey-1"], same), (["PTTL", "testkey-1"], shaped), (["TTL", "testkey-1"], shaped),
    (["PEXPIRETIME", "testkey-1"], shaped), (["KEYS", "testkey-*"], same), (["KEYS", "other-*"], same),
    (["SCAN", "0", "MATCH", "testkey-*", "COUNT", "100"], scan),
    (["OBJECT", "ENCODING", "testkey-1"], Refused("unknown command")), (["DEBUG", "SLEEP", "0"], Refused("unknown command")),
    (["DEL", "testkey-1"], same), (["UNLINK", "testkey-1"], same), (["PTTL", "testkey-1"], same),
    (["DEL"], same), (["KEYS"], same), (["NOTHING"], same), (["FLUSHDB"], same), (["KEYS", "*"], same), (["QUIT"], same),
]


def shape(reply):
    if isinstance(reply, list):
        return [len(reply)] if len(reply) < 4 else ["list"]
    return type(reply)


class Failed(str):
    """An error reply."""


class Connection:
    """A connection in RESP2, whose replies are as they come."""

    def __init__(self, url):
        place = urlparse(url)
        self.socket = socket.create_connection((place.hostname, place.port), timeout=30)
        self.stream = self.socket.makefile("rb")
        if place.password:
            assert self.ask(["AUTH", place.password]) == "OK"

    def ask(self, words):
        words = [str(word).encode() for word in words]
        parts = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self.socket.sendall(b"*%d\r\n%s" % (len(words), parts))
        return self.read()

    def read(self):
        line = self.stream.readline().decode()
        assert line.endswith("\r\n"), "the connection ended"
        kind, rest = line[0], line[1:-2]
        if kind == "$":
            return None if rest == "-1" else self.stream.read(int(rest) + 2)[:-2].decode()
        if kind == "*":
            return None if rest == "-1" else [self.read() for _ in range(int(rest))]
        return {"+": str, "-": Failed, ":": int}[kind](rest)


def comparable(reply):
    """The reply; of an error its code, which is what clients look at, and whether the command is known at all."""
    if not isinstance(reply, Failed):
        return reply
    return f"error {reply.split(' ')[0]}" + (", unknown" if "unknown command" in reply.lower() else "")


def name(words):
    parts = {"CLIENT", "CLUSTER", "COMMAND", "CONFIG", "FUNCTION", "SCRIPT", "TFUNCTION"}
    return " ".join(words[:2] if words[0] in parts else words[:1])


def compare():
    base, server, wrong = Connection(os.environ["BASE_URL"]), Connection(os.environ["REDIS_URL"]), []
    for words, expected in TABLE:
        there, here = base.ask(words), server.ask(words)
        if not expected.check(there, here):
            asked = " ".join(str(word)[:60] for word in words)
            wrong.append(f"{asked}\n  expected {expected}\n  redis-server: {there!r:.300}\n  found: {here!r:.300}")
    return wrong


asked = {name([str(word).upper() for word in words]) for words, _ in TABLE}
missing = {command for command in os.environ.get("SENT", "").split(",") if command} - asked
assert not missing, f"sent by a client, and not in the table: {sorted(missing)}"
wrong = compare()
assert not wrong, "\n" + "\n".join(wrong)
print(f"commands.py: {len(TABLE)} commands are answered as redis-server does, or refused with what to do")
