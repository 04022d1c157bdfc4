"""redis-py's Lock: https://github.com/redis/redis-py"""

import redjepsen
from redjepsen import redis_py


def connect(settings):
    from redis.lock import Lock

    client = redis_py.client(settings.node, settings.node_timeout)

    def acquire(operation):
        # Before 3.0 `lock` took another class where the server had scripts.
        waits = {"sleep": 0.02, "blocking_timeout": operation.within}
        lock = client.lock(operation.key, timeout=settings.ttl, lock_class=Lock, **waits)
        extend = lambda: lock.extend(settings.ttl, replace_ttl=True)
        return redjepsen.Held(lock.release, extend=extend) if lock.acquire() else None

    return acquire


redjepsen.serve(connect, name="redis-py Lock", package="redis", flags=["extend"])
