"""RedBeat's lock for the only active scheduler, which waits without a time limit. With --extend, each tick renews it:
https://github.com/sibson/redbeat"""

import types

import redjepsen
from redjepsen import redis_py


def connect(settings):
    import celery
    import redbeat.schedulers

    app = celery.Celery()
    app.conf.redbeat_redis_url = settings.node
    app.conf.redbeat_redis_options = redis_py.once(settings.node_timeout)
    options = {"lock_timeout": settings.whole_seconds, "max_interval": settings.retry_delay[0], "lazy": True}

    def acquire(operation):
        scheduler = redbeat.schedulers.RedBeatScheduler(app, lock_key=operation.key, **options)
        # Celery's beat calls this through a signal when it starts, but a signal hides the exception.
        redbeat.schedulers.acquire_distributed_beat_lock(types.SimpleNamespace(scheduler=scheduler))

        def extend():
            scheduler.tick()  # returns how long to sleep, which is not a validity

        return redjepsen.Held(scheduler.close, extend=extend)

    return acquire


redjepsen.serve(connect, name="RedBeat", package="celery-redbeat", flags=["extend"])
