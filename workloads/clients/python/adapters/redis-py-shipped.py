"""redis-py's Lock with the default limits and retries of its client: https://github.com/redis/redis-py"""

import redjepsen


def connect(settings):
    import redis

    client = redis.Redis.from_url(settings.node)

    def acquire(operation):
        lock = client.lock(operation.key, timeout=settings.ttl, blocking_timeout=operation.within)
        return redjepsen.Held(lock.release) if lock.acquire() else None

    return acquire


redjepsen.serve(connect, name="redis-py Lock", package="redis")
