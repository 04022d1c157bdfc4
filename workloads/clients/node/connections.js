"use strict";
// Connections to the lock's nodes by ioredis, for libraries that take connections.

module.exports = (settings) => {
  const Redis = require("ioredis");
  return settings.nodes.map((url) => {
    // A request is not sent again. The workload sets its time limit: ioredis itself has none.
    const once = { maxRetriesPerRequest: 0, commandTimeout: settings.nodeTimeout, connectTimeout: settings.nodeTimeout };
    const node = new Redis(url, once);
    node.on("error", (error) => console.error(url, error.message));
    return node;
  });
};
