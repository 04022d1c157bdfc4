"""redis-rw-lock, which consists of five locks and two counters, and prefers writers:
https://github.com/swapnilsm/redis-rw-lock"""

import redjepsen
from redjepsen import redis_py


def connect(settings):
    from redis_rw_lock import RWLock

    # The library counts in whole seconds. It waits without a time limit, with requests as long as the TTL.
    expire = settings.whole_seconds
    client = redis_py.client(settings.node, expire + settings.node_timeout)

    def acquire(operation):
        mode = RWLock.READ if operation.shared else RWLock.WRITE
        lock = RWLock(client, operation.key, mode, expire=expire)
        lock.acquire()
        return redjepsen.Held(lock.release)

    return acquire


redjepsen.serve(connect, name="redis-rw-lock", package="redis-rw-lock", shared=True)
