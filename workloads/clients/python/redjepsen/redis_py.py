"""A redis-py client as adapters use it: bounded in time, and asking once."""

from __future__ import annotations

from typing import Any


def once(limit: float, *, asynchronous: bool = False, **more: Any) -> "dict[str, Any]":
    """Arguments for `redis.Redis`: a request takes so many seconds at the most and is never sent again. redis-py's own
    default sends it up to ten more times, and a SET NX that was done the first time then says no."""
    bounds = {"socket_timeout": limit, "socket_connect_timeout": limit, **more}
    try:
        from redis.backoff import NoBackoff
    except ImportError:
        # Before 4.0 nothing is sent again unless it is asked for.
        return bounds

    if asynchronous:
        from redis.asyncio.retry import Retry
    else:
        from redis.retry import Retry  # type: ignore[assignment, unused-ignore]

    return {"retry": Retry(NoBackoff(), 0), **bounds}


def client(url: str, limit: float, **more: Any) -> Any:
    """A client of one node."""
    import redis

    return redis.Redis.from_url(url, **once(limit, **more))
