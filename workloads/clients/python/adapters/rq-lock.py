"""The lock for a queue of rq's RQScheduler, which does not wait; --extend sends its heartbeat:
https://github.com/rq/rq"""

import time

import redjepsen
from redjepsen import redis_py

#: The seconds by which its lock's TTL exceeds its interval.
BEYOND_INTERVAL = 60


def connect(settings):
    from rq.scheduler import RQScheduler

    client = redis_py.client(settings.node, settings.node_timeout)
    interval = settings.whole_seconds - BEYOND_INTERVAL
    schedulers = {}

    def acquire(operation):
        # The name in the lock's key is the queue's name. Like a worker's scheduler, this one outlives a single hold.
        if operation.key not in schedulers:
            schedulers[operation.key] = RQScheduler([operation.key], client, interval=interval)
        scheduler, deadline = schedulers[operation.key], time.monotonic() + operation.within

        def extend():
            scheduler.heartbeat()
            return operation.key in scheduler.acquired_locks and None

        while time.monotonic() < deadline:
            if scheduler.acquire_locks():
                return redjepsen.Held(scheduler.release_locks, extend=extend)
            time.sleep(settings.retry_delay[1])
        return None

    return acquire


redjepsen.serve(connect, name="rq RQScheduler", package="rq", flags=["extend"])
