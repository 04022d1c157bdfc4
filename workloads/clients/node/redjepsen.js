"use strict";
// What docs/client-protocol.md asks of a client, apart from the lock itself. It needs no packages.
//
// serve(name, connect): `connect(settings)` returns `acquire(key, within, operation)`, and that a promise of the lock, or of
// null if it was not obtained: `{release(), validity()?}`. Times are in milliseconds. What `acquire` throws is a lock that
// was not obtained. A library that renews its lock in the background says with `operation.lost(reason)` that it is lost, and
// may say with `operation.extended(validity)` that it was renewed. There are no counters, lists and fencing here, which the
// package in Python has.
//
// serve(name, connect, package): with `package`, that package's version as it is installed is said with the name.

const fs = require("fs");
const net = require("net");
const path = require("path");
const readline = require("readline");

const LIMIT = 2000; // for a request to the resource, which is not what is under test
const START_LIMIT = 20000; // a client may start in the middle of a fault
const DOUBT_LIMIT = 60000; // a holder waits until its write cannot arrive any more: longer than a fault lasts
const AGAIN = 20;
const WARM_UP_LIMIT = 2000; // to take a lock for the first time
const WARM_UP_ENDS = 5000; // and to give it back

const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

class Refused extends Error {}

// What the lock protects: texts in a Redis of their own. After an error the connection is closed and never used again.
class Register {
  constructor(url) {
    const { hostname, port } = new URL(url);
    this.place = { host: hostname, port: Number(port || 6379) };
    this.socket = null;
    this.number = null; // what the server calls the connection
  }

  async connect() {
    if (this.socket) return;
    const socket = net.connect({ ...this.place, noDelay: true });
    this.received = "";
    this.waiting = null;
    socket.setEncoding("utf8");
    socket.on("data", (data) => {
      this.received += data;
      this.settle();
    });
    const broken = (error) => {
      if (this.socket === socket) this.socket = null;
      if (this.waiting) this.waiting.fail(error || new Error("the server closed the connection"));
    };
    socket.on("close", () => broken());
    await new Promise((done, fail) => {
      const late = setTimeout(() => socket.destroy(new Error("timeout")), LIMIT);
      socket.once("connect", () => (clearTimeout(late), done()));
      socket.on("error", (error) => (clearTimeout(late), broken(error), fail(error)));
    });
    this.socket = socket;
    this.number = await this.ask("CLIENT", "ID");
  }

  // The first whole reply, if there is one. Numbers come as texts.
  settle() {
    const end = this.received.indexOf("\r\n");
    if (end < 0 || !this.waiting) return;
    const [kind, rest] = [this.received[0], this.received.slice(1, end)];
    let value = rest;
    let next = end + 2;
    if (kind === "$" && rest === "-1") value = null;
    else if (kind === "$") {
      value = this.received.slice(next, next + Number(rest));
      next += Number(rest) + 2;
      if (this.received.length < next) return;
    }
    this.received = this.received.slice(next);
    if (kind === "-") this.waiting.fail(new Refused(value));
    else this.waiting.done(value);
  }

  async ask(...words) {
    await this.connect();
    const socket = this.socket;
    return new Promise((done, fail) => {
      const late = setTimeout(() => socket.destroy(), LIMIT);
      const over = (then) => (value) => {
        clearTimeout(late);
        this.waiting = null;
        then(value);
      };
      this.waiting = { done: over(done), fail: over(fail) };
      const encoded = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
      socket.write(`*${words.length}\r\n${encoded.join("")}`);
    });
  }

  // Whether nothing that was sent on the connection that broke can arrive any more: the server has closed it.
  async cutOff() {
    const number = this.number;
    for (const deadline = Date.now() + DOUBT_LIMIT; Date.now() < deadline; await sleep(AGAIN)) {
      try {
        await this.ask("CLIENT", "KILL", "ID", number);
        return true;
      } catch (error) {
        if (error instanceof Refused) return true;
      }
    }
    return false;
  }
}

// One operation, as the controller hears of it. A library may be faster than `acquired`, which has to be said first; what it
// tells when the operation is over is passed on to nobody.
class Operation {
  constructor(invoke) {
    this.invoke = invoke;
    this.early = [];
    this.state = "acquiring";
    this.isLost = null; // why
  }

  report(name, facts) {
    say({ type: "phase", id: this.invoke.id, phase: name, mono_ns: Number(process.hrtime.bigint()), ...facts });
    if (name === "acquired" && this.state === "acquiring") {
      this.state = "held";
      for (const early of this.early) this.report(...early);
    } else if (name === "released") this.state = "over";
  }

  tell(name, facts) {
    if (this.state === "held") this.report(name, facts);
    else if (this.state === "acquiring") this.early.push([name, facts]);
  }

  extended(validity) {
    this.tell("extended", validity === undefined ? {} : { validity_ms: Math.max(0, Math.floor(validity)) });
  }

  lost(reason) {
    if (this.isLost !== null || this.state === "over") return;
    this.isLost = String(reason);
    this.tell("lost", { text: this.isLost });
  }
}

class Client {
  constructor(acquire, register) {
    this.acquire = acquire;
    this.register = register;
    this.gone = null; // what continues the operation that waits at a breakpoint
  }

  async phase(operation, name, facts = {}) {
    const { id, breakpoints = [] } = operation.invoke;
    operation.report(name, facts);
    if (!breakpoints.includes(name)) return;
    await new Promise((done) => (this.gone = { id, phase: name, done }));
    operation.report(name, facts); // only now does what comes next happen
  }

  async perform(invoke) {
    const end = (type, facts) => ({ type, id: invoke.id, ...facts });
    const fail = (error, text) => end("fail", { error, text });
    if (invoke.f === "read") {
      try {
        return end("ok", { old: await this.register.ask("GET", invoke.key) });
      } catch (error) {
        return fail("unavailable", String(error));
      }
    }
    if (invoke.f !== "rmw" && invoke.f !== "hold") return fail("unsupported", invoke.f);
    const operation = new Operation(invoke);
    try {
      return await this.locked(operation, end, fail);
    } finally {
      operation.state = "over";
    }
  }

  async locked(operation, end, fail) {
    const { key, acquire_timeout_ms: within } = operation.invoke;
    await this.phase(operation, "acquiring");
    let lock;
    try {
      lock = await this.acquire("lock:" + key, within, operation);
    } catch (error) {
      return fail("not-acquired", String(error));
    }
    if (!lock) return fail("not-acquired", "");
    const validity = lock.validity ? { validity_ms: Math.max(0, Math.floor(lock.validity())) } : {};
    await this.phase(operation, "acquired", validity);
    const [answer, settled] = await this.work(operation, end, fail);
    if (!settled) return answer;
    await this.phase(operation, "releasing");
    try {
      await lock.release();
      await this.phase(operation, "released");
    } catch (error) {
      console.error("release:", error); // whether the lock is free is not known, so `released` is not said
    }
    return answer;
  }

  // The work under the lock: the answer, and whether the lock may be given back afterwards.
  async work(operation, end, fail) {
    const { invoke } = operation;
    if (invoke.f === "hold") {
      await sleep(invoke.hold_ms);
      return [end("ok", {}), true];
    }
    let old;
    try {
      old = await this.register.ask("GET", invoke.key);
    } catch (error) {
      return [fail("unavailable", String(error)), true];
    }
    await this.phase(operation, "read", { value: old });
    await sleep(invoke.hold_ms);
    if (operation.isLost !== null) return [fail("lock-lost", operation.isLost), true];
    await this.phase(operation, "before-write");
    try {
      await this.register.connect();
    } catch (error) {
      return [fail("unavailable", String(error)), true];
    }
    try {
      await this.register.ask("SET", invoke.key, invoke.value);
    } catch (error) {
      if (error instanceof Refused) return [fail("unavailable", error.message), true];
      // Nobody knows whether it was written, or will be. Until it cannot be any more the lock is kept.
      const settled = await this.register.cutOff();
      return [end("info", { error: "connection-lost", text: String(error) }), settled];
    }
    await this.phase(operation, "written");
    return [end("ok", { old, new: invoke.value }), true];
  }
}

async function reached(attempt) {
  for (const deadline = Date.now() + START_LIMIT; ; await sleep(AGAIN)) {
    try {
      return await attempt();
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
  }
}

async function started(hello, connect) {
  const { lock, resource } = hello;
  if (hello.protocol !== 1) throw new Error(`this client speaks protocol 1, not ${hello.protocol}`);
  if (resource.kind !== "register" || resource.fencing !== "none") {
    throw new Error(`this client writes a register without fencing, not ${resource.kind} ${resource.fencing}`);
  }
  if (lock.group) throw new Error("this client takes nodes that are independent of each other");
  const options = lock.options || {};
  const settings = {
    ttl: lock.ttl_ms,
    nodes: lock.nodes,
    nodeTimeout: options.node_timeout_ms || lock.ttl_ms,
    retryDelay: options.retry_delay_ms || [10, 50],
  };
  const register = new Register(resource.url);
  await reached(() => register.connect());
  const acquire = await reached(() => connect(settings));
  await warmUp(acquire, hello.client);
  return new Client(acquire, register);
}

// Takes a lock of its own and gives it back. The first one loads code, connects, and brings the library's scripts to the
// nodes; that belongs to no operation. A node may be down just now, so failing is no reason not to start.
async function warmUp(acquire, client) {
  const once = async () => {
    const lock = await acquire("warm-up:" + client, WARM_UP_LIMIT, new Operation({}));
    if (lock) await lock.release();
  };
  const late = new Promise((done) => setTimeout(done, WARM_UP_ENDS).unref());
  try {
    await Promise.race([once(), late]);
  } catch (error) {
    console.error("warm-up:", error);
  }
}

// A package's version, from the folder that it was loaded from: not every package lets its package.json be required.
function versionOf(name) {
  const { version } = JSON.parse(fs.readFileSync(path.join(folderOf(name), "package.json")));
  return version.replace(/^v/, ""); // some write it with one
}

function folderOf(name) {
  const main = require.resolve(name);
  const inside = path.join("node_modules", name);
  return main.slice(0, main.lastIndexOf(inside) + inside.length);
}

function serve(name, connect, library) {
  console.log = console.error; // what a library prints is no message
  let client = null;
  const act = async (message) => {
    if (message.type === "hello") {
      try {
        const known = library ? `${name} ${versionOf(library)}` : name;
        client = await started(message, connect);
        say({ type: "ready", protocol: 1, name: known, capabilities: [] });
      } catch (error) {
        say({ type: "failed", text: String(error && error.message) });
      }
    } else if (message.type === "invoke") say(await client.perform(message));
    else if (message.type === "go") {
      const { gone } = client;
      if (gone && gone.id === message.id && gone.phase === message.phase) {
        client.gone = null;
        gone.done();
      }
    } else if (message.type === "bye") process.exit(0);
    else throw new Error(`the controller sent ${message.type}`);
  };
  const lines = readline.createInterface({ input: process.stdin });
  lines.on("line", (line) => {
    Promise.resolve()
      .then(() => act(JSON.parse(line)))
      .catch((error) => {
        console.error(error);
        process.exit(1);
      });
  });
  lines.on("close", () => process.exit(0));
}

module.exports = { serve };
