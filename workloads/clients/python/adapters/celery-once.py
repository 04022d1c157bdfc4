"""The lock of celery-once: https://github.com/cameronmaske/celery-once"""

import redjepsen
from redjepsen import redis_py


def connect(settings):
    from celery_once import AlreadyQueued
    from celery_once.backends import redis as backends

    # celery-once is configured by a URL, which cannot forbid that a request is sent again.
    backends.redis = redis_py.client(settings.node, settings.node_timeout)

    def acquire(operation):
        backend = backends.Redis({"blocking": True, "blocking_timeout": operation.within})
        try:
            backend.raise_or_lock(operation.key, settings.ttl)
        except AlreadyQueued:
            return None
        return redjepsen.Held(lambda: backend.clear_lock(operation.key))

    return acquire


redjepsen.serve(connect, name="celery-once", package="celery-once")
