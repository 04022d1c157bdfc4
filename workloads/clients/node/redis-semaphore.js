"use strict";
// redis-semaphore's Mutex, with `--redlock` its RedlockMutex and, where several may have the lock, its Semaphore: https://github.com/swarthy/redis-semaphore

const connections = require("./connections.js");
const { serve } = require("./redjepsen.js");

function connect(settings) {
  const redlock = settings.flags.has("redlock");
  const { Mutex, RedlockMutex, Semaphore } = require("redis-semaphore");
  const nodes = connections(settings);
  const [low, high] = settings.retryDelay;

  return async (key, within, operation) => {
    const options = {
      lockTimeout: settings.ttl,
      acquireTimeout: within,
      retryInterval: (low + high) / 2,
      onLockLost: (error) => operation.lost(error.message),
    };
    const mutex = redlock
      ? new RedlockMutex(nodes, key, options)
      : settings.permits > 1
        ? new Semaphore(nodes[0], key, settings.permits, options)
        : new Mutex(nodes[0], key, options);
    return (await mutex.tryAcquire()) ? { release: () => mutex.release(), owned: () => mutex.isAcquired } : null;
  };
}

serve("redis-semaphore", connect, "redis-semaphore", { flags: ["redlock"] });
