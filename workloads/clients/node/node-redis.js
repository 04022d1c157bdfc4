"use strict";
// Connections to the lock's nodes by the package redis, from version 4 on. It never sends a request again, and has no time
// limit for an answer: `node_timeout` limits an attempt to connect.

exports.connections = (settings) => {
  const { createClient } = require("redis");
  return Promise.all(
    settings.nodes.map(async (url) => {
      const node = createClient({ url, socket: { connectTimeout: settings.nodeTimeout } });
      node.on("error", (error) => console.error(url, error.message));
      await node.connect();
      return node;
    }),
  );
};
