"""coredis's Lock: https://github.com/alisaifee/coredis"""

import redjepsen


async def connect(settings):
    import coredis
    from coredis.patterns.lock import Lock

    limits = {"stream_timeout": settings.node_timeout, "connect_timeout": settings.node_timeout}
    client = coredis.Redis.from_url(settings.node, retry_policy=coredis.retry.NoRetryPolicy(), **limits)
    await client.__aenter__()

    async def acquire(operation):
        lock = Lock(client, operation.key, timeout=settings.ttl, sleep=0.02, blocking_timeout=operation.within)
        extend = lambda: lock.extend(settings.ttl)
        return redjepsen.Held(lock.release, extend=extend) if await lock.acquire() else None

    return acquire


redjepsen.serve(connect, name="coredis Lock", package="coredis", flags=["extend"])
