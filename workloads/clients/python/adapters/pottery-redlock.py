"""pottery's Redlock: https://github.com/brainix/pottery"""

import redjepsen
from redjepsen import redis_py


def connect(settings):
    import pottery

    masters = {redis_py.client(url, settings.node_timeout) for url in settings.nodes}

    def acquire(operation):
        lock = pottery.Redlock(key=operation.key, masters=masters, auto_release_time=settings.ttl)
        return redjepsen.Held(lock.release, extend=lock.extend) if lock.acquire(timeout=operation.within) else None

    return acquire


redjepsen.serve(connect, name="pottery Redlock", package="pottery", flags=["extend"])
