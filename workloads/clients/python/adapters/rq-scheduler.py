"""The lock of rq-scheduler, which does not wait: https://github.com/rq/rq-scheduler"""

import time

import redjepsen
from redjepsen import redis_py

#: The seconds by which its lock's TTL exceeds its interval.
BEYOND_INTERVAL = 10


def connect(settings):
    from rq_scheduler import Scheduler

    client = redis_py.client(settings.node, settings.node_timeout)
    interval = settings.whole_seconds - BEYOND_INTERVAL

    def acquire(operation):
        scheduler, deadline = Scheduler(connection=client, interval=interval), time.monotonic() + operation.within
        scheduler.scheduler_lock_key = operation.key
        while time.monotonic() < deadline:
            if scheduler.acquire_lock():
                return redjepsen.Held(scheduler.remove_lock)
            time.sleep(settings.retry_delay[1])
        return None

    return acquire


redjepsen.serve(connect, name="rq-scheduler", package="rq-scheduler")
