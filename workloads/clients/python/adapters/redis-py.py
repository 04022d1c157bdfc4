"""redis-py's Lock: https://github.com/redis/redis-py"""

import redjepsen
from redjepsen import redis_py


def connect(settings):
    client = redis_py.client(settings.node, settings.node_timeout)

    def acquire(operation):
        lock = client.lock(operation.key, timeout=settings.ttl, sleep=0.02, blocking_timeout=operation.within)
        extend = lambda: lock.extend(settings.ttl, replace_ttl=True)
        return redjepsen.Held(lock.release, extend=extend, owned=lock.owned) if lock.acquire() else None

    return acquire


redjepsen.serve(connect, name="redis-py Lock", package="redis", flags=["extend"])
