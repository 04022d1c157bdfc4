#!/usr/bin/env python3
"""A lock client for redjepsen in Python. It needs only the package beside it: copy it and replace its lock by yours.

    redjepsen run --workload single --client-image python:3-slim \
      --mount workloads/clients/python:/client --client-cmd "python3 -u /client/client.py"

The package `redjepsen` speaks the client protocol (docs/client-protocol.md); this file has only the lock. SAFE SIDE
marks the points where a lock must be careful.
"""

import os
import threading
import time

import redjepsen
from redjepsen.resource import Refused, Server

COMPARE_AND_DELETE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"


def connect(settings):
    """SET NX PX on one node, with a separate connection for each thread."""
    own, address = threading.local(), settings.node  # fails here if there are several nodes

    def node():
        if not hasattr(own, "node"):
            own.node = Server(address, limit=settings.ttl / 5)
        return own.node

    def release(key, mark):
        try:
            node().ask("EVAL", COMPARE_AND_DELETE, 1, key, mark)
        except (OSError, Refused):
            pass  # the TTL frees the lock

    def acquire(operation):
        deadline = time.monotonic() + operation.within
        while True:
            mark, begin = os.urandom(20).hex(), time.monotonic()
            try:
                taken = node().ask("SET", operation.key, mark, "NX", "PX", settings.ttl_ms) is not None
            except (OSError, Refused):
                taken = None  # it is unknown whether the lock was set
            # SAFE SIDE: the duration of the request counts against the lock's validity.
            left_ms = settings.ttl_ms - (time.monotonic() - begin) * 1000
            if taken and left_ms > 0:
                return redjepsen.Held(lambda: release(operation.key, mark), validity_ms=left_ms)
            if taken is not False:
                release(operation.key, mark)  # SAFE SIDE: removes a lock that may have been set, or was set too late
            if time.monotonic() > deadline:
                return None
            time.sleep(0.01 + os.urandom(1)[0] / 6000)  # 10 to 52 ms at random, so that contenders fall out of step

    return acquire


if __name__ == "__main__":
    redjepsen.serve(connect, name="python-example 1")
