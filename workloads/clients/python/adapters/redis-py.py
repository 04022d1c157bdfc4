"""redis-py's Lock: https://github.com/redis/redis-py

With `--shared`, the threads of the client share one lock object for each key. With `--global-token`, this object
keeps one token for all threads (`thread_local=False`), as redis-py documents for a lock that is passed to another
thread."""

import redjepsen
from redjepsen import redis_py


def connect(settings):
    from redis.lock import Lock

    client = redis_py.primary(settings)
    own = "global-token" not in settings.flags
    shared = {}

    def acquire(operation):
        # Before 3.0, `lock` used another class if the server supported scripts.
        lock = client.lock(operation.key, timeout=settings.ttl, sleep=0.02, thread_local=own, lock_class=Lock)
        if "shared" in settings.flags:
            lock = shared.setdefault(operation.key, lock)
        extend = lambda: lock.extend(settings.ttl, replace_ttl=True)
        held = lock.acquire(blocking_timeout=operation.within)
        return redjepsen.Held(lock.release, extend=extend, owned=getattr(lock, "owned", None)) if held else None

    return acquire


redjepsen.serve(connect, name="redis-py Lock", package="redis", flags=["extend", "shared", "global-token"], groups=["sentinel", "cluster"])
