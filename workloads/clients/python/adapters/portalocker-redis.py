"""portalocker's RedisLock, which is held by a subscription and has no TTL: https://github.com/wolph/portalocker"""

import redjepsen
from redjepsen import redis_py


def connect(settings):
    import inspect

    import portalocker

    # Versions before 4.2 lack some of these options, and interrupt a holder that loses its lock.
    known = inspect.signature(portalocker.RedisLock.__init__).parameters
    client = redis_py.client(settings.node, settings.ttl, decode_responses=True, health_check_interval=10)
    fenced = "fencing" in settings.flags

    def acquire(operation):
        options = {
            "timeout": operation.within,
            "unavailable_timeout": settings.ttl,
            "interrupt_on_lost": False,
            "on_lost": lambda lock: operation.lost("its subscription is gone"),
            "fencing": fenced,
        }
        options = {name: value for name, value in options.items() if name in known}
        lock = portalocker.RedisLock(operation.key, client, **options)
        try:
            lock.acquire()
        except portalocker.AlreadyLocked:
            return None
        check, token = getattr(lock, "ensure_held", None), getattr(lock, "fence_token", None)
        return redjepsen.Held(lock.release, check=check, token=token)

    return acquire


redjepsen.serve(connect, name="portalocker RedisLock", package="portalocker", flags=["fencing"])
