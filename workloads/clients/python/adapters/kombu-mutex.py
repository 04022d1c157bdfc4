"""kombu's Mutex, which Celery uses on a Redis broker, and which does not wait: https://github.com/celery/kombu"""

import time

import redjepsen
from redjepsen import redis_py


def connect(settings):
    from kombu.transport.redis import Mutex, MutexHeld

    client = redis_py.client(settings.node, settings.node_timeout)

    def acquire(operation):
        deadline = time.monotonic() + operation.within
        while time.monotonic() < deadline:
            mutex = Mutex(client, operation.key, settings.ttl)
            try:
                mutex.__enter__()
                return redjepsen.Held(lambda: mutex.__exit__(None, None, None))
            except MutexHeld:
                time.sleep(settings.retry_delay[1])
        return None

    return acquire


redjepsen.serve(connect, name="kombu Mutex", package="kombu", once=True)
