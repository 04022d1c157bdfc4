"""redis-py's Lock for asyncio: https://github.com/redis/redis-py"""

import redjepsen
from redjepsen import redis_py


async def connect(settings):
    import redis.asyncio

    client = redis.asyncio.Redis.from_url(settings.node, **redis_py.once(settings.node_timeout, asynchronous=True))

    async def acquire(operation):
        lock = client.lock(operation.key, timeout=settings.ttl, sleep=0.02, blocking_timeout=operation.within)
        extend = lambda: lock.extend(settings.ttl, replace_ttl=True)
        return redjepsen.Held(lock.release, extend=extend, owned=lock.owned) if await lock.acquire() else None

    return acquire


redjepsen.serve(connect, name="redis-py asyncio Lock", package="redis", flags=["extend"])
