"""cashews' lock, which hides errors of Redis; --strict sets suppress=False: https://github.com/Krukov/cashews"""

import asyncio
import time

import redjepsen
from redjepsen import redis_py


async def connect(settings):
    from cashews import Cache, LockedError

    cache = Cache()
    limits = redis_py.once(settings.node_timeout, asynchronous=True)
    cache.setup(settings.node, suppress="strict" not in settings.flags, **limits)
    await cache.init()

    async def acquire(operation):
        deadline = time.monotonic() + operation.within
        while time.monotonic() < deadline:
            lock = cache.lock(operation.key, settings.ttl, wait=False)
            try:
                await lock.__aenter__()
                return redjepsen.Held(lambda: lock.__aexit__(None, None, None))
            except LockedError:
                await asyncio.sleep(settings.retry_delay[1])
        return None

    return acquire


redjepsen.serve(connect, name="cashews lock", package="cashews", once=True, flags=["strict"])
