"use strict";
// node-redlock 5, with `--using` by `using`, which renews the lock, and with `--4` node-redlock 4:
// https://github.com/mike-marcacci/node-redlock

const connections = require("./connections.js");
const { serve } = require("./redjepsen.js");

const ONCE = { retryCount: 0 };

function connect(settings) {
  const [four, using] = ["4", "using"].map((flag) => settings.flags.has(flag));
  const loaded = require("redlock");
  const Redlock = loaded.default || loaded;
  const nodes = connections(settings);
  const redlock = four ? new Redlock(nodes, ONCE) : new Redlock(nodes);
  for (const event of ["error", "clientError"]) redlock.on(event, (error) => console.error(error.message));
  const [low, high] = settings.retryDelay;
  const validity = (lock) => () => lock.expiration - Date.now();

  const taken = async (key) => {
    const lock = await (four ? redlock.acquire([key], settings.ttl) : redlock.acquire([key], settings.ttl, ONCE));
    return { release: () => (four ? lock.unlock() : lock.release()), validity: validity(lock) };
  };

  // The lock is held as long as this adapter's routine runs.
  const used = (key, operation) =>
    new Promise((took, failed) => {
      const routine = (signal) =>
        new Promise((done) => {
          signal.addEventListener("abort", () => operation.lost(signal.error));
          took({ release: () => (done(), ended) });
        });
      const ended = redlock.using([key], settings.ttl, ONCE, routine);
      ended.catch(failed);
    });

  // Version 5 counts a lock's time from the first of its own attempts, so each attempt is a separate call.
  return async (key, within, operation) => {
    for (const deadline = Date.now() + within; ; ) {
      try {
        return await (using ? used(key, operation) : taken(key));
      } catch (error) {
        if (Date.now() > deadline) throw error;
      }
      await new Promise((done) => setTimeout(done, low + Math.random() * (high - low)));
    }
  };
}

serve("node-redlock", connect, "redlock", { flags: ["4", "using"], once: process.argv.includes("--using") });
