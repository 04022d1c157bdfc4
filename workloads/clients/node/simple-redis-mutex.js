"use strict";
// simple-redis-mutex, which waits for a message and polls.

const { connections } = require("./node-redis.js");
const { serve } = require("./redjepsen.js");

async function connect(settings) {
  const { lock } = require("simple-redis-mutex");
  const [node] = await connections(settings);
  // By default it polls three times per TTL.
  const options = { timeout: settings.ttl, pollingInterval: Math.ceil(settings.ttl / 3) };

  return async (key, within) => ({ release: await lock(node, key, { ...options, failAfter: within }) });
}

serve("simple-redis-mutex", connect, "simple-redis-mutex");
