"""redlock-py: https://github.com/SPSCommerce/redlock-py"""

import redjepsen
from redjepsen import redis_py


def connect(settings):
    import redlock

    servers = [redis_py.client(url, settings.node_timeout) for url in settings.nodes]
    delay = sum(settings.retry_delay) / 2

    def acquire(operation):
        manager = redlock.Redlock(servers, retry_count=max(1, int(operation.within / delay)), retry_delay=delay)
        lock = manager.lock(operation.key, settings.ttl_ms)
        return redjepsen.Held(lambda: manager.unlock(lock), validity_ms=lock.validity) if lock else None

    return acquire


redjepsen.serve(connect, name="redlock-py", package="redlock-py")
