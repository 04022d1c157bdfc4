"""pottery's Redlock: https://github.com/brainix/pottery

With `--shared`, the threads of the client share one lock object for each key."""

import redjepsen
from redjepsen import redis_py


def connect(settings):
    import pottery

    masters = {redis_py.client(url, settings.node_timeout) for url in settings.nodes}

    shared = {}

    def acquire(operation):
        lock = pottery.Redlock(key=operation.key, masters=masters, auto_release_time=settings.ttl)
        if "shared" in settings.flags:
            lock = shared.setdefault(operation.key, lock)

        def release():
            try:
                lock.release()
            except pottery.ReleaseUnlockedLock as error:
                # If it carries errors of Redis, too few masters answered: then the lock's owner is unknown.
                raise next(iter(error.redis_errors), error)

        return redjepsen.Held(release, extend=lock.extend) if lock.acquire(timeout=operation.within) else None

    return acquire


redjepsen.serve(connect, name="pottery Redlock", package="pottery", flags=["extend", "shared"])
