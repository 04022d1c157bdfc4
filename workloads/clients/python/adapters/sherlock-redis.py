"""sherlock's RedisLock; --no-expire sets expire=None: https://github.com/vaidik/sherlock"""

import redjepsen
from redjepsen import redis_py


def connect(settings):
    import sherlock

    client = redis_py.client(settings.node, settings.node_timeout)
    expire = None if "no-expire" in settings.flags else settings.whole_seconds

    def acquire(operation):
        lock = sherlock.RedisLock(
            operation.key, client=client, expire=expire, timeout=operation.within, retry_interval=0.02
        )
        try:
            lock.acquire()
        except sherlock.LockTimeoutException:
            return None
        return redjepsen.Held(lock.release, extend=lock.renew)

    return acquire


redjepsen.serve(connect, name="sherlock RedisLock", package="sherlock", flags=["extend", "no-expire"])
