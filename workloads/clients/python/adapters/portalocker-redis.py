"""portalocker's RedisLock, which is held by a subscription and has no TTL: https://github.com/wolph/portalocker"""

import redjepsen
from redjepsen import redis_py


def connect(settings):
    import portalocker

    client = redis_py.client(settings.node, settings.ttl, decode_responses=True, health_check_interval=10)
    fenced = "fencing" in settings.flags

    def acquire(operation):
        lock = portalocker.RedisLock(
            operation.key,
            client,
            timeout=operation.within,
            unavailable_timeout=settings.ttl,
            interrupt_on_lost=False,
            on_lost=lambda lock: operation.lost("its subscription is gone"),
            fencing=fenced,
        )
        try:
            lock.acquire()
        except portalocker.AlreadyLocked:
            return None
        return redjepsen.Held(lock.release, check=lock.ensure_held, token=lock.fence_token)

    return acquire


redjepsen.serve(connect, name="portalocker RedisLock", package="portalocker", flags=["fencing"])
