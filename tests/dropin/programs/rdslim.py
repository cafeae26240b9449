"""A client of the sliding window by script or function, written after that limiter's document, by redis-py.

Run by `cargo xtask dropin`. REDIS_URL names the server and the database, which is 9 where there are several; SCRIPTS is
the folder of the script and the library that it loads. PUBLISHED is 1 where the server knows the published script by
its SHA-1, LONG is 1 where windows are waited for. Exits with an error if a test fails.
"""

import hashlib
import os
import threading
import time
import unittest

import redis

PUBLISHED = "31b1d0758f8a955fd4b0eac57648ec1c5575fbb5"
HOUR, MINUTE = 3_600_000, 60_000
# How long a window of a second may take to pass on a busy machine.
PATIENCE = 30


def connect():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def text(name):
    with open(f"{os.environ['SCRIPTS']}/{name}.lua", encoding="utf-8") as file:
        return file.read()


class AnyCommand:
    """The tests of one way to invoke the command, which `call` is."""

    key = "testkey-window"

    def setUp(self):
        self.server = connect()
        self.server.flushdb()
        self.deploy()
        assert self.server.exists(self.key) == 0

    def tearDown(self):
        self.server.delete(self.key)
        assert self.server.exists(self.key) == 0
        self.server.close()

    def ask(self, *args, key=None):
        return self.call(1, key or self.key, *args)

    def test_one_window(self):
        assert [self.ask(HOUR, 5) for _ in range(7)] == [0] * 5 + [1] * 2

    def test_burst_control(self):
        """100 an hour, and no more than 10 a minute."""
        assert [self.ask(HOUR, 100, MINUTE, 10) for _ in range(12)] == [0] * 10 + [2] * 2
        # What was refused is not recorded: the largest window has counted ten.
        assert self.ask(HOUR, 11) == 0 and self.ask(HOUR, 11) == 1

    def test_the_first_window_that_fails_is_told(self):
        assert [self.ask(HOUR, 3, MINUTE, 3, 1_000_000, 2) for _ in range(3)] == [0, 0, 3]
        assert self.ask(HOUR, 2, MINUTE, 2, 1_000_000, 9) == 1

    def test_a_limit_of_zero_refuses_at_once(self):
        assert self.ask(HOUR, 0) == 1 and self.ask(HOUR, 5, MINUTE, 0) == 2
        assert self.server.exists(self.key) == 0

    def test_keys_live_as_long_as_the_first_window_and_the_extra_time(self):
        assert self.ask(MINUTE, 5) == 0
        assert 0 < self.server.pttl(self.key) <= MINUTE
        assert self.ask(MINUTE, 5, HOUR) == 0
        assert MINUTE < self.server.pttl(self.key) <= MINUTE + HOUR

    def test_a_key_that_was_deleted_begins_anew(self):
        assert [self.ask(HOUR, 1) for _ in range(2)] == [0, 1]
        assert self.server.delete(self.key) == 1
        assert self.ask(HOUR, 1) == 0

    def test_a_flush_empties_the_database(self):
        assert [self.ask(HOUR, 1) for _ in range(2)] == [0, 1]
        assert self.server.flushdb() is True and self.server.keys("*") == []
        assert self.ask(HOUR, 1) == 0

    def test_mistakes_are_errors_and_record_nothing(self):
        for args in [(), (1000,), ("x", 1), (1000, "x"), (1000, 1, "x"), (1000, 1, -1), (-1, 1)]:
            with self.assertRaises(redis.ResponseError, msg=str(args)):
                self.ask(*args)
        for keys in [(0,), (2, self.key, "testkey-other")]:
            with self.assertRaises(redis.ResponseError, msg=str(keys)):
                self.call(*keys, 1000, 1)
        assert self.server.exists(self.key) == 0

    def test_callers_at_once_get_no_more_than_the_limit(self):
        told = []

        def caller():
            server = connect()
            told.extend(self.call(1, self.key, HOUR, 50, server=server) for _ in range(20))
            server.close()

        threads = [threading.Thread(target=caller) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(told) == [0] * 50 + [1] * 70, told

    def test_keys_of_a_benchmark_are_found_and_removed(self):
        names = [f"testkey-{number}" for number in range(30)]
        for name in names:
            assert self.ask(3000, 500, key=name) == 0
        found = self.server.keys("testkey-*")
        assert sorted(found) == sorted(names), found
        assert sum(self.server.delete(name) for name in found) == len(names)
        assert self.server.keys("testkey-*") == []

    @unittest.skipUnless(os.environ.get("LONG") == "1", "waits for a window")
    def test_an_event_leaves_when_its_window_has_passed(self):
        began = time.monotonic()
        assert [self.ask(1000, 2) for _ in range(2)] == [0, 0]
        while self.ask(1000, 2) != 0:
            assert time.monotonic() - began < PATIENCE
            time.sleep(0.01)
        assert time.monotonic() - began > 0.99


class Script(AnyCommand, unittest.TestCase):
    """SCRIPT LOAD once, then EVALSHA."""

    def deploy(self):
        self.sha = self.server.script_load(text("sliding_window"))
        assert self.sha == hashlib.sha1(text("sliding_window").encode()).hexdigest()

    def call(self, *args, server=None):
        return (server or self.server).evalsha(self.sha, *args)

    def test_a_library_that_deploys_scripts_by_itself(self):
        window = self.server.register_script(text("sliding_window"))
        self.server.script_flush()
        assert [window(keys=[self.key], args=[HOUR, 1]) for _ in range(2)] == [0, 1]


class Function(AnyCommand, unittest.TestCase):
    """FUNCTION LOAD REPLACE, then FCALL."""

    def deploy(self):
        self.server.function_load(text("library"), replace=True)

    def call(self, *args, server=None):
        return (server or self.server).fcall("sliding_window", *args)


@unittest.skipUnless(os.environ.get("PUBLISHED") == "1", "the published script is not here")
class PublishedScript(AnyCommand, unittest.TestCase):
    """EVALSHA alone: the server knows the script."""

    def deploy(self):
        assert self.server.script_exists(PUBLISHED) == [True]

    def call(self, *args, server=None):
        return (server or self.server).evalsha(PUBLISHED, *args)


program = unittest.main(verbosity=0, exit=False)
if not program.result.wasSuccessful() or program.result.testsRun == 0:
    raise SystemExit(1)
print(f"rdslim.py: redis-py {redis.__version__}: {program.result.testsRun} tests, {len(program.result.skipped)} skipped")
