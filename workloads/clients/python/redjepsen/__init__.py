"""Tests a Python lock library with redjepsen: you supply a function that acquires the lock, the package does the
rest.

    import redjepsen

    def connect(settings):
        import redis
        client = redis.Redis.from_url(settings.node, socket_timeout=settings.node_timeout)

        def acquire(operation):
            lock = client.lock(operation.key, timeout=settings.ttl, blocking_timeout=operation.within)
            return redjepsen.Held(lock.release) if lock.acquire() else None

        return acquire

    redjepsen.serve(connect, name="redis-py Lock", package="redis")

`connect` is called once, `acquire` for each operation; either may be a coroutine function, and so may all functions
in `Held`. The package reads the resource that the lock protects, waits, writes it back, and speaks the client
protocol (docs/client-protocol.md in the project).
"""

from .client import serve
from .lock import Acquire, Connect, Held, Sentinels, Settings, Unsuitable
from .protocol import Operation

__all__ = ["Acquire", "Connect", "Held", "Operation", "Sentinels", "Settings", "Unsuitable", "serve"]
