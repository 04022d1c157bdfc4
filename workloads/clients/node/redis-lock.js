"use strict";
// redis-lock, which waits without a time limit: https://github.com/errorception/redis-lock

const { connections } = require("./node-redis.js");
const { serve } = require("./redjepsen.js");

async function connect(settings) {
  const [node] = await connections(settings);
  const [low, high] = settings.retryDelay;
  const lock = require("redis-lock")(node, (low + high) / 2);

  return async (key) => ({ release: await lock(key, settings.ttl) });
}

serve("redis-lock", connect, "redis-lock");
