"""dramatiq's ConcurrentRateLimiter, which does not wait. Its documentation calls it a mutex if its limit is 1:
https://github.com/Bogdanp/dramatiq"""

import time

import redjepsen
from redjepsen import redis_py


def connect(settings):
    from dramatiq.rate_limits import ConcurrentRateLimiter
    from dramatiq.rate_limits.backends import RedisBackend

    backend = RedisBackend(client=redis_py.client(settings.node, settings.node_timeout))

    def acquire(operation):
        deadline = time.monotonic() + operation.within
        while time.monotonic() < deadline:
            mutex = ConcurrentRateLimiter(backend, operation.key, limit=settings.permits, ttl=settings.ttl_ms)
            held = mutex.acquire(raise_on_failure=False)
            if held.__enter__():
                return redjepsen.Held(lambda: held.__exit__(None, None, None))
            time.sleep(settings.retry_delay[1])
        return None

    return acquire


redjepsen.serve(connect, name="dramatiq ConcurrentRateLimiter", package="dramatiq", once=True)
