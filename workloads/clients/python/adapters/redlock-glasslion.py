"""The package redlock: https://github.com/glasslion/redlock"""

import redjepsen
from redjepsen import redis_py


def connect(settings):
    import redlock

    factory = redlock.RedLockFactory([redis_py.client(url, settings.node_timeout) for url in settings.nodes])
    delay = settings.retry_delay[1]

    def acquire(operation):
        tries = max(1, int(operation.within / (delay / 2)))
        lock = factory.create_lock(
            operation.key, ttl=settings.ttl_ms, retry_times=tries, retry_delay=int(delay * 1000)
        )
        return redjepsen.Held(lock.release) if lock.acquire() else None

    return acquire


redjepsen.serve(connect, name="redlock", package="redlock")
