"""django-redis's cache.lock, which is redis-py's Lock: https://github.com/jazzband/django-redis"""

import redjepsen
from redjepsen import redis_py


def connect(settings):
    from django.conf import settings as django
    from django.core.cache import cache

    limits = redis_py.once(settings.node_timeout)
    options = {"CLIENT_CLASS": "django_redis.client.DefaultClient", "CONNECTION_POOL_KWARGS": limits}
    backend = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": settings.node, "OPTIONS": options}
    django.configure(CACHES={"default": backend})

    def acquire(operation):
        lock = cache.lock(operation.key, timeout=settings.ttl, sleep=0.02, blocking_timeout=operation.within)
        extend = lambda: lock.extend(settings.ttl, replace_ttl=True)
        return redjepsen.Held(lock.release, extend=extend) if lock.acquire() else None

    return acquire


redjepsen.serve(connect, name="django-redis lock", package="django-redis", flags=["extend"])
