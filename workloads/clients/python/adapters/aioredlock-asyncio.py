"""aioredlock. Without --no-watchdog, it renews its locks: https://github.com/joanvila/aioredlock"""

import urllib.parse

import redjepsen


async def connect(settings):
    import aioredlock

    low, high = settings.retry_delay
    tries = lambda within: max(1, int(within / ((low + high) / 2)))
    ttl = settings.ttl if "no-watchdog" in settings.flags else None  # a lock with a timeout is not renewed
    # With URLs, aioredlock would connect without a time limit.
    nodes = [urllib.parse.urlsplit(url) for url in settings.nodes]
    nodes = [{"host": node.hostname, "port": node.port, "timeout": settings.node_timeout} for node in nodes]
    manager = aioredlock.Aioredlock(
        nodes, retry_count=1, retry_delay_min=low, retry_delay_max=high, internal_lock_timeout=settings.ttl
    )

    async def acquire(operation):
        manager.retry_count = tries(operation.within)
        lock = await manager.lock(operation.key, lock_timeout=ttl)
        return redjepsen.Held(lambda: manager.unlock(lock), extend=lock.extend, check=lambda: lock.valid)

    return acquire


redjepsen.serve(connect, name="aioredlock", package="aioredlock", flags=["extend", "no-watchdog"])
