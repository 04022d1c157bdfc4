"use strict";
// Connections to the lock's nodes by ioredis, for libraries that are given some.

module.exports = (settings) => {
  const Redis = require("ioredis");
  return settings.nodes.map((url) => {
    // A request is not sent again. How long it may wait is the workload's setting: ioredis by itself sets no limit.
    const once = { maxRetriesPerRequest: 0, commandTimeout: settings.nodeTimeout, connectTimeout: settings.nodeTimeout };
    const node = new Redis(url, once);
    node.on("error", (error) => console.error(url, error.message));
    return node;
  });
};
