"""One reply is lost on its way: what redis-py charges by default, and with the settings of docs/redis.md.

Run by `cargo xtask clients`. REDIS_URL names a server on which `tollgate redis install` was run.
"""

import os
import socket
import threading

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

url = os.environ["REDIS_URL"]
host, port = url.removeprefix("redis://").split(":")


def pump(source, target, seen):
    """Passes bytes on; `seen` may hang up instead."""
    try:
        while (data := source.recv(65536)) and seen(data):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def proxy():
    """A way to the server that loses the first reply to an FCALL; answers its URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    lost = threading.Event()

    def serve():
        while True:
            client, _ = listener.accept()
            server = socket.create_connection((host, int(port)))
            asked = threading.Event()

            def question(data, asked=asked):
                if b"FCALL" in data:
                    asked.set()
                return True

            def reply(_, asked=asked):
                if asked.is_set() and not lost.is_set():
                    lost.set()
                    return False
                return True

            threading.Thread(target=pump, args=(client, server, question), daemon=True).start()
            threading.Thread(target=pump, args=(server, client, reply), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return f"redis://127.0.0.1:{listener.getsockname()[1]}"


def left(key):
    return redis.Redis.from_url(url).fcall("tollgate_peek", 1, key, "10/h")[2]


# Not from_url, which retries only if it is told to.
redis.Redis(port=int(proxy().rsplit(":", 1)[1])).fcall("tollgate", 1, "tg:{once:default}", "10/h")
assert left("tg:{once:default}") == 8, "redis-py no longer charges twice by default: tell docs/redis.md"

careful = redis.Redis.from_url(proxy(), retry=Retry(NoBackoff(), 0), socket_timeout=1)
try:
    careful.fcall("tollgate", 1, "tg:{once:careful}", "10/h")
except redis.ConnectionError:
    pass
else:
    raise AssertionError("a lost reply is an error")
assert left("tg:{once:careful}") == 9

print("once.py: a lost reply is one charge with the settings of the guide, and two without")
