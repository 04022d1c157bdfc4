"use strict";
// Connections to the lock's nodes by the package redis, from version 4 on. It never sends a request again, and has no
// limit for how long an answer may take: `node_timeout` is that of an attempt to connect.

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
