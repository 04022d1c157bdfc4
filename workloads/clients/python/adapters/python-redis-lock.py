"""python-redis-lock, which waits with BLPOP: https://github.com/ionelmc/python-redis-lock"""

import redjepsen
from redjepsen import redis_py


def connect(settings):
    import redis_lock

    renews = "auto-renewal" in settings.flags
    # The library waits for whole seconds, and at most for the lock's TTL. A request of that length must not time out.
    expire = settings.whole_seconds
    client = redis_py.client(settings.node, expire + settings.node_timeout)

    def acquire(operation):
        lock = redis_lock.Lock(client, operation.key, expire=expire, auto_renewal=renews)
        wait = max(1, int(operation.within) if renews else min(int(operation.within), expire))
        return redjepsen.Held(lock.release, extend=lock.extend) if lock.acquire(timeout=wait) else None

    return acquire


redjepsen.serve(connect, name="python-redis-lock", package="python-redis-lock", flags=["extend", "auto-renewal"])
