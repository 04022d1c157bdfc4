"""redis-rw-lock, five locks and two counters, which prefers writers: https://github.com/swapnilsm/redis-rw-lock"""

import redjepsen
from redjepsen import redis_py


def connect(settings):
    from redis_rw_lock import RWLock

    # It counts in whole seconds, and waits for as long as it takes, with requests of that length.
    expire = settings.whole_seconds
    client = redis_py.client(settings.node, expire + settings.node_timeout)

    def acquire(operation):
        mode = RWLock.READ if operation.shared else RWLock.WRITE
        lock = RWLock(client, operation.key, mode, expire=expire)
        lock.acquire()
        return redjepsen.Held(lock.release)

    return acquire


redjepsen.serve(connect, name="redis-rw-lock", package="redis-rw-lock", shared=True)
