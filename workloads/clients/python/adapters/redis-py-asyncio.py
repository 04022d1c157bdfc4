"""redis-py's Lock for asyncio: https://github.com/redis/redis-py

With `--shared`, the tasks of the client share one lock object for each key. The object keeps one token for all tasks:
by default a token is kept per thread, and all tasks run in one thread."""

import redjepsen
from redjepsen import redis_py


async def connect(settings):
    import redis.asyncio

    client = redis.asyncio.Redis.from_url(settings.node, **redis_py.once(settings.node_timeout, asynchronous=True))
    shared = {}

    async def acquire(operation):
        lock = client.lock(operation.key, timeout=settings.ttl, sleep=0.02)
        if "shared" in settings.flags:
            lock = shared.setdefault(operation.key, lock)
        extend = lambda: lock.extend(settings.ttl, replace_ttl=True)
        held = await lock.acquire(blocking_timeout=operation.within)
        return redjepsen.Held(lock.release, extend=extend, owned=lock.owned) if held else None

    return acquire


redjepsen.serve(connect, name="redis-py asyncio Lock", package="redis", flags=["extend", "shared"])
