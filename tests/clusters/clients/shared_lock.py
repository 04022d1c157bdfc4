"""A reentrant lock object that the threads of a process share. With `--own-count` it distinguishes the threads; without, it
treats every thread of the process as the holder."""

import os
import threading
import time

import redjepsen
from redjepsen.resource import Server

DELETE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"


class Lock:
    def __init__(self, url, ttl_ms, own_count):
        self.url, self.ttl_ms, self.connections = url, ttl_ms, threading.local()
        self.state = threading.local() if own_count else self
        self.mark, self.count = None, 0

    def node(self):
        if not hasattr(self.connections, "node"):
            self.connections.node = Server(self.url)
        return self.connections.node

    def acquire(self, key, within):
        if getattr(self.state, "count", 0) > 0:
            self.state.count += 1
            return True
        mark, deadline = os.urandom(8).hex(), time.monotonic() + within
        while self.node().ask("SET", key, mark, "NX", "PX", self.ttl_ms) is None:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        self.state.mark, self.state.count = mark, 1
        return True

    def release(self, key):
        self.state.count -= 1
        if self.state.count == 0:
            self.node().ask("EVAL", DELETE, 1, key, self.state.mark)


def connect(settings):
    lock = Lock(settings.node, settings.ttl_ms, "own-count" in settings.flags)

    def acquire(operation):
        taken = lock.acquire(operation.key, operation.within)
        return redjepsen.Held(lambda: lock.release(operation.key)) if taken else None

    return acquire


redjepsen.serve(connect, name="shared lock 1", flags=["own-count"])
