"""redis-lock-py, which waits for a message: https://github.com/miintto/redis-lock-py"""

import redjepsen
from redjepsen import redis_py


def connect(settings):
    from redis_lock import RedisLock

    client = redis_py.client(settings.node, settings.node_timeout)
    seconds = settings.whole_seconds

    def acquire(operation):
        lock = RedisLock(client, operation.key, blocking_timeout=operation.within, expire_timeout=seconds)
        return redjepsen.Held(lock.release) if lock.acquire() else None

    return acquire


redjepsen.serve(connect, name="redis-lock-py", package="redis-lock-py")
