"""walrus's Lock, which waits with BLPOP and without a time limit: https://github.com/coleifer/walrus"""

import redjepsen
from redjepsen import redis_py


def connect(settings):
    import walrus

    # A request waits for at most the TTL, in whole seconds.
    limits = redis_py.once(settings.ttl + settings.node_timeout)
    database = walrus.Database.from_url(settings.node, **limits)

    def acquire(operation):
        lock = database.lock(operation.key, ttl=settings.ttl_ms)
        return redjepsen.Held(lock.release) if lock.acquire() else None

    return acquire


redjepsen.serve(connect, name="walrus Lock", package="walrus")
