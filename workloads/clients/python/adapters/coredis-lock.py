"""coredis's Lock: https://github.com/alisaifee/coredis"""

import redjepsen


async def connect(settings):
    import coredis
    from coredis.patterns.lock import Lock

    limits = {"stream_timeout": settings.node_timeout, "connect_timeout": settings.node_timeout}
    once = {"retry_policy": coredis.retry.NoRetryPolicy()}
    if settings.sentinels:
        known = coredis.Sentinel(settings.sentinels.addresses, **once, **limits)
        await known.__aenter__()
        client = known.primary_for(settings.sentinels.name)
    elif settings.group == "cluster":
        nodes = [coredis.connection.TCPLocation(*place) for place in settings.addresses]
        client = coredis.RedisCluster(startup_nodes=nodes, **once, **limits)
    else:
        client = coredis.Redis.from_url(settings.node, **once, **limits)
    await client.__aenter__()

    async def acquire(operation):
        lock = Lock(client, operation.key, timeout=settings.ttl, sleep=0.02, blocking_timeout=operation.within)
        extend = lambda: lock.extend(settings.ttl)
        return redjepsen.Held(lock.release, extend=extend) if await lock.acquire() else None

    return acquire


redjepsen.serve(connect, name="coredis Lock", package="coredis", flags=["extend"], groups=["sentinel", "cluster"])
