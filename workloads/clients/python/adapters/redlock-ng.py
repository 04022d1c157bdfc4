"""The package redlock-ng."""

import redjepsen


def connect(settings):
    import redlock

    limit = settings.node_timeout
    # The library creates its own clients of Redis; redis-py 5 sends each request only once.
    nodes = redlock.RedlockConfig(masters=settings.nodes, socket_timeout=limit, socket_connect_timeout=limit)
    low, high = settings.retry_delay

    def acquire(operation):
        tries = max(1, int(operation.within / ((low + high) / 2)))
        manager = redlock.Redlock(nodes, retry_count=tries, retry_delay_min=low, retry_delay_max=high)
        lock = manager.acquire(operation.key, settings.ttl_ms)
        return redjepsen.Held(lambda: manager.release(lock), validity_ms=lock.validity) if lock else None

    return acquire


redjepsen.serve(connect, name="redlock-ng", package="redlock-ng")
