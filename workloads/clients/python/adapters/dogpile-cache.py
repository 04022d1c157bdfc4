"""The distributed lock of dogpile.cache, which is redis-py's Lock: https://github.com/sqlalchemy/dogpile.cache"""

import redjepsen
from redjepsen import redis_py


def connect(settings):
    from dogpile.cache import make_region

    arguments = {
        "url": settings.node,
        "distributed_lock": True,
        "thread_local_lock": False,
        "lock_timeout": settings.ttl,
        "lock_sleep": 0.02,
        "connection_kwargs": redis_py.once(settings.node_timeout),
    }

    regions = {}

    def region(within):
        """Returns the region for this time limit: dogpile.cache sets the limit per region."""
        if within not in regions:
            bounded = {**arguments, "lock_blocking_timeout": within}
            regions[within] = make_region().configure("dogpile.cache.redis", arguments=bounded)
        return regions[within]

    def acquire(operation):
        lock = region(operation.within).backend.get_mutex(operation.key)
        return redjepsen.Held(lock.release) if lock.acquire() else None

    return acquire


redjepsen.serve(connect, name="dogpile.cache lock", package="dogpile.cache")
