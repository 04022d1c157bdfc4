"""The lock of celery-singleton, which does not wait; --no-ttl is its default:
https://github.com/steinitzu/celery-singleton"""

import time
import uuid

import redjepsen
from redjepsen import redis_py


def connect(settings):
    from celery_singleton.backends import RedisBackend

    backend = RedisBackend(settings.node, **redis_py.once(settings.node_timeout))
    expiry = None if "no-ttl" in settings.flags else settings.whole_seconds

    def acquire(operation):
        task, deadline = str(uuid.uuid4()), time.monotonic() + operation.within
        while time.monotonic() < deadline:
            if backend.lock(operation.key, task, expiry):
                return redjepsen.Held(lambda: backend.unlock(operation.key))
            time.sleep(settings.retry_delay[1])
        return None

    return acquire


redjepsen.serve(connect, name="celery-singleton", package="celery-singleton", flags=["no-ttl"])
