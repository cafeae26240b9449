"""A load generator of redis-limiter, written after that limiter's document, by redis-py.

Run by `cargo xtask dropin` as the document runs its own: counter.py --host HOST --port PORT --concurrency 3
--threshold 100. The minute is part of a counter's name and is the caller's, so no clock is waited for. TRIGGER is 1
where the server keeps {api:TOKEN}:data as the document's trigger does. Exits with an error if a reply is not what the
document says.
"""

import argparse
import os
import threading

import redis

arguments = argparse.ArgumentParser()
arguments.add_argument("--host", default="127.0.0.1")
arguments.add_argument("--port", type=int, default=6379)
arguments.add_argument("--user")
arguments.add_argument("--password")
arguments.add_argument("--concurrency", type=int, default=3)
arguments.add_argument("--iterations", type=int, default=20)
arguments.add_argument("--threshold", type=int, default=100)
options = arguments.parse_args()
triggered = os.environ.get("TRIGGER") == "1"


def connect():
    return redis.Redis(host=options.host, port=options.port, username=options.user, password=options.password,
                       decode_responses=True)


def is_allowed(server, token, minute, threshold):
    """Whether the counter of this minute is under the threshold; if it is, counts."""
    counter = f"{{api:{token}}}:{minute}"
    used = server.get(counter)
    if used is not None and int(used) >= threshold:
        return False
    count, expires = server.pipeline(transaction=True).incr(counter).expire(counter, 59).execute()
    assert count == int(used or 0) + 1 and expires is True, (count, used, expires)
    return True


def clear(server):
    """Removes the counters and the data that this program made."""
    for key in set(server.scan_iter(match="{api:*}:*", count=100)):
        assert server.delete(key) == 1
    assert list(server.scan_iter(match="{api:*}:*")) == []


def documented(server):
    """The counter of the document's example, in minute 54 and the next."""
    token = "0ubo9qku7y"
    assert [is_allowed(server, token, 54, 3) for _ in range(5)] == [True, True, True, False, False]
    assert is_allowed(server, token, 55, 3)
    assert 0 < server.ttl(f"{{api:{token}}}:54") <= 59
    assert server.get(f"{{api:{token}}}:54") == "3"
    usage(server, token, 4)


def usage(server, token, ops):
    """The hash that the trigger keeps: the time of the last use, and all uses."""
    data = server.hgetall(f"{{api:{token}}}:data")
    if not triggered:
        assert data == {}, data
        return
    assert int(data["ops"]) == ops and 0 <= server.time()[0] - int(data["last"]) <= 60, data


def deploy(server):
    """The library of triggers: a server that has none of them, or no such text, says what to do."""
    text = "#!js api_version=1.0 name=limiter\n// another text"
    try:
        server.execute_command("TFUNCTION", "LOAD", "REPLACE", text)
    except redis.ResponseError as error:
        way_out = "keeps by itself" if triggered else "unknown command"
        assert way_out in str(error), error
    else:
        raise AssertionError("an unknown library of triggers was loaded")


def generator(token, allowed):
    """One of the document's load generators, with a token of its own."""
    server = connect()
    allowed[token] = sum(is_allowed(server, token, 7, options.threshold) for _ in range(options.iterations))
    server.close()


def load(server):
    allowed = {}
    threads = [threading.Thread(target=generator, args=(f"load{n}", allowed)) for n in range(options.concurrency)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = min(options.iterations, options.threshold)
    assert len(allowed) == options.concurrency and set(allowed.values()) == {expected}, allowed
    for token in allowed:
        usage(server, token, expected)


server = connect()
clear(server)
documented(server)
deploy(server)
load(server)
clear(server)
server.close()
print(f"counter.py: redis-py {redis.__version__}")
