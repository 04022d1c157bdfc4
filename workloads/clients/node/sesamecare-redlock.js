"use strict";
// The fork of node-redlock 5 by SesameCare: https://github.com/sesamecare/redlock

const connections = require("./connections.js");
const { serve } = require("./redjepsen.js");

function connect(settings) {
  const { Redlock } = require("@sesamecare-oss/redlock");
  const redlock = new Redlock(connections(settings));
  redlock.on("error", (error) => console.error(error.message));
  const [low, high] = settings.retryDelay;
  const delay = { retryDelay: (low + high) / 2, retryJitter: (high - low) / 2 };

  return async (key, within) => {
    const retryCount = Math.ceil(within / delay.retryDelay);
    const lock = await redlock.acquire([key], settings.ttl, { retryCount, ...delay });
    return { release: () => lock.release(), validity: () => lock.expiration - Date.now() };
  };
}

serve("@sesamecare-oss/redlock", connect, "@sesamecare-oss/redlock");
