"""A redis-py client for adapters: its requests have a time limit and are sent once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .lock import Settings


def once(limit: float, *, asynchronous: bool = False, **more: Any) -> "dict[str, Any]":
    """Returns arguments for `redis.Redis`: a request takes at most `limit` seconds and is never sent again.
    redis-py's default sends it up to ten more times; then a SET NX that took effect the first time is refused the
    second time."""
    bounds = {"socket_timeout": limit, "socket_connect_timeout": limit, **more}
    try:
        from redis.backoff import NoBackoff
    except ImportError:
        # Before 4.0, redis-py sends nothing again unless it is told to.
        return bounds

    if asynchronous:
        from redis.asyncio.retry import Retry
    else:
        from redis.retry import Retry  # type: ignore[assignment, unused-ignore]

    return {"retry": Retry(NoBackoff(), 0), **bounds}


def primary(settings: "Settings", **more: Any) -> Any:
    """Returns a client for the run's nodes: the only node, the primary that the Sentinels name, or a Redis
    Cluster."""
    limits = once(settings.node_timeout, **more)
    if settings.sentinels:
        from redis.sentinel import Sentinel

        of_sentinels = once(settings.node_timeout)
        known = Sentinel(settings.sentinels.addresses, sentinel_kwargs=of_sentinels, **limits)
        return known.master_for(settings.sentinels.name)
    if settings.group == "cluster":
        from redis.cluster import ClusterNode, RedisCluster

        return RedisCluster(startup_nodes=[ClusterNode(*place) for place in settings.addresses], **limits)
    return client(settings.node, settings.node_timeout, **more)


def client(url: str, limit: float, **more: Any) -> Any:
    """Returns a client of one node."""
    import redis

    return redis.Redis.from_url(url, **once(limit, **more))
