"use strict";
// node-redis-warlock: https://github.com/TheDeveloper/warlock

const { serve } = require("./redjepsen.js");
const { promisify } = require("util");

function connect(settings) {
  const [url] = settings.nodes;
  // redis 3, which its documentation names, has no time limit for an answer, and sends no request again.
  const node = require("redis").createClient(url, { connect_timeout: settings.nodeTimeout });
  node.on("error", (error) => console.error(url, error.message));
  const warlock = require("node-redis-warlock")(node);
  const [low, high] = settings.retryDelay;
  const wait = (low + high) / 2;
  const optimistic = promisify(warlock.optimistic);

  return async (key, within) => {
    const unlock = await optimistic(key, settings.ttl, Math.ceil(within / wait), wait);
    return { release: promisify(unlock) };
  };
}

serve("warlock", connect, "node-redis-warlock");
