"""huey's TaskLock, which does not wait; --no-ttl is its default: https://github.com/coleifer/huey"""

import time

import redjepsen
from redjepsen import redis_py


def connect(settings):
    import huey
    import redis

    pool = redis.ConnectionPool.from_url(settings.node, **redis_py.once(settings.node_timeout))
    app = huey.RedisExpireHuey("app", connection_pool=pool)  # RedisHuey has locks with a TTL only from Redis 7.4 on
    ttl = None if "no-ttl" in settings.flags else settings.whole_seconds

    def acquire(operation):
        lock, deadline = app.lock_task(operation.key, ttl), time.monotonic() + operation.within
        while time.monotonic() < deadline:
            try:
                lock.acquire()
                return redjepsen.Held(lock.release)
            except huey.exceptions.TaskLockedException:
                time.sleep(settings.retry_delay[1])
        return None

    return acquire


redjepsen.serve(connect, name="huey TaskLock", package="huey", flags=["no-ttl"])
