"use strict";
// node-redlock 5 and, with `--4`, node-redlock 4: https://github.com/mike-marcacci/node-redlock

const { serve } = require("./redjepsen.js");

const four = process.argv.includes("--4");

function connect(settings) {
  const loaded = require("redlock");
  const Redlock = loaded.default || loaded;
  const Redis = require("ioredis");
  const nodes = settings.nodes.map((url) => {
    // A request is not sent again. How long it may wait is the workload's setting: ioredis by itself sets no limit.
    const once = { maxRetriesPerRequest: 0, commandTimeout: settings.nodeTimeout, connectTimeout: settings.nodeTimeout };
    const node = new Redis(url, once);
    node.on("error", (error) => console.error(url, error.message));
    return node;
  });
  const redlock = four ? new Redlock(nodes, { retryCount: 0 }) : new Redlock(nodes);
  for (const event of ["error", "clientError"]) redlock.on(event, (error) => console.error(error.message));
  const [low, high] = settings.retryDelay;
  const take = four
    ? (key) => redlock.acquire([key], settings.ttl)
    : (key) => redlock.acquire([key], settings.ttl, { retryCount: 0 });

  // Version 5 counts a lock's time from the first of its own attempts, so each attempt is a call.
  return async (key, within) => {
    for (const deadline = Date.now() + within; ; ) {
      try {
        const lock = await take(key);
        const release = () => (four ? lock.unlock() : lock.release());
        return { release, validity: () => lock.expiration - Date.now() };
      } catch (error) {
        if (Date.now() > deadline) throw error;
      }
      await new Promise((done) => setTimeout(done, low + Math.random() * (high - low)));
    }
  };
}

serve("node-redlock", connect, "redlock");
