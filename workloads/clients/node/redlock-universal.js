"use strict";
// redlock-universal's simple lock and, on several nodes, its Redlock: https://github.com/alexpota/redlock-universal

const connections = require("./connections.js");
const { serve } = require("./redjepsen.js");

function connect(settings) {
  const { createLock, createRedlock, IoredisAdapter } = require("redlock-universal");
  const adapters = connections(settings).map((node) => new IoredisAdapter(node, { timeout: settings.nodeTimeout }));
  const [low, high] = settings.retryDelay;
  const retryDelay = (low + high) / 2;

  return async (key, within) => {
    const options = { key, ttl: settings.ttl, retryAttempts: Math.ceil(within / retryDelay), retryDelay };
    const [adapter, ...others] = adapters;
    const lock = others.length ? createRedlock({ adapters, ...options }) : createLock({ adapter, ...options });
    const handle = await lock.acquire();
    return { release: () => lock.release(handle) };
  };
}

serve("redlock-universal", connect, "redlock-universal");
