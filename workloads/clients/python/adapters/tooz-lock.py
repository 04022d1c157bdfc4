"""The Redis lock of OpenStack's tooz, renewed by its coordinator: https://opendev.org/openstack/tooz"""

import redjepsen


def connect(settings):
    from tooz import coordination

    seconds = settings.whole_seconds
    # tooz's client of Redis sends a request again by itself; this cannot be turned off.
    where = f"{settings.node}?lock_timeout={seconds}&timeout={seconds}&socket_timeout={settings.node_timeout}"
    coordinator = coordination.get_coordinator(where, settings.client.encode())
    coordinator.start(start_heart=True)

    def acquire(operation):
        lock = coordinator.get_lock(operation.key.encode())
        return redjepsen.Held(lock.release) if lock.acquire(operation.within) else None

    return acquire


redjepsen.serve(connect, name="tooz RedisLock", package="tooz")
