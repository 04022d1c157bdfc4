"use strict";
// node-redlock: https://github.com/mike-marcacci/node-redlock

const { serve } = require("./redjepsen.js");

function connect(settings) {
  const { default: Redlock } = require("redlock");
  const Redis = require("ioredis");
  const nodes = settings.nodes.map((url) => {
    // A request is not sent again, and does not wait for a connection.
    const once = { maxRetriesPerRequest: 0, commandTimeout: settings.nodeTimeout, connectTimeout: settings.nodeTimeout };
    const node = new Redis(url, once);
    node.on("error", (error) => console.error(url, error.message));
    return node;
  });
  const redlock = new Redlock(nodes);
  redlock.on("error", (error) => console.error(error.message));
  const [low, high] = settings.retryDelay;

  // The library counts a lock's time from the first of its own attempts, so each attempt is a call.
  return async (key, within) => {
    for (const deadline = Date.now() + within; ; ) {
      try {
        const lock = await redlock.acquire([key], settings.ttl, { retryCount: 0 });
        return { release: () => lock.release(), validity: () => lock.expiration - Date.now() };
      } catch (error) {
        if (Date.now() > deadline) throw error;
      }
      await new Promise((done) => setTimeout(done, low + Math.random() * (high - low)));
    }
  };
}

serve("node-redlock 5.0.0-beta.2", connect);
