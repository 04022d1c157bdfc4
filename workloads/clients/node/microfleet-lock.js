"use strict";
// Microfleet's ioredis-lock, which is a module for `import` alone: https://github.com/microfleet/ioredis-lock

const connections = require("./connections.js");
const { serve } = require("./redjepsen.js");

async function connect(settings) {
  const { createLock } = await import(require.resolve("@microfleet/ioredis-lock"));
  const [node] = connections(settings);
  const [low, high] = settings.retryDelay;
  const delay = (low + high) / 2;

  return async (key, within) => {
    const lock = createLock(node, { timeout: settings.ttl, retries: Math.ceil(within / delay), delay });
    await lock.acquire(key);
    return { release: () => lock.release() };
  };
}

serve("@microfleet/ioredis-lock", connect, "@microfleet/ioredis-lock");
