"use strict";
// Does everything that docs/client-protocol.md asks of a client, except the lock itself. It needs no packages.
//
// serve(name, connect, package, {flags, cancels, shared, once}): `connect(settings)` returns `acquire(key, within,
// operation)`, which returns a promise of the lock, or of null if it was not acquired. Times are in milliseconds. If
// `acquire` throws, the lock was not acquired. If the run wants threads, `connect` is called once, and `acquire` for
// several operations at once.
//
// A lock is `{release()}`, with these optional fields. `validity()` returns how long the library says that the lock is
// valid from now. `token` is its fencing token. `extend()` renews the lock, may return the new validity, and throws if the
// lock is lost. `check()` is called before the write, and is false or throws if the lock is lost. `owned()` returns whether
// the library says that this client holds the lock. It is called as often as the workload says (`check_every`), and then
// before the write too. False means that the lock is lost; an exception means that there was no answer. All may be
// promises. A library that renews its lock in the background reports a loss with `operation.lost(reason)`, and may report a
// renewal with `operation.extended(validity)`. Any other field of a lock is a mistake of the adapter and ends the client:
// the client would not use the field, so it would be no evidence.
//
// With `package`, the installed version of this package is reported with the name. `flags` are the options that the adapter
// has on its command line, without dashes; `settings.flags` has the given options. With `extend`, a lock is held for longer
// than its TTL and extended meanwhile. With `cancels`, `acquire` ends when `operation.signal` is aborted. Within `release`
// this is another signal, and a release that ended because of it is repeated once. With `shared`, `acquire` acquires the
// lock for reading, together with other readers, if `operation.shared` is true. With `once`, `release` can be called only
// once, because it ends a routine that the library runs; otherwise a run may ask for a second call.

const fs = require("fs");
const net = require("net");
const path = require("path");
const readline = require("readline");

const LIMIT = 2000; // for a request to the resource, which is not under test
const START_LIMIT = 20000; // a client may start in the middle of a fault
const DOUBT_LIMIT = 60000; // how long a holder waits until its write cannot arrive any more: longer than a fault lasts
const AGAIN = 20;
const EXTEND_AFTER = 0.6; // of its TTL, with the flag `extend`
const KINDS = ["register", "counter", "list", "none"];
const FENCINGS = ["none", "compare-and-set", "token", "token-reads"];
const FENCED = "the resource has seen a later holder's token";

// KEYS: the key. ARGV: whether the key had a text, this text, the new text.
const COMPARE_AND_SET = `
local current = redis.call('get', KEYS[1])
local matches
if ARGV[1] == 'absent' then matches = current == false else matches = current == ARGV[2] end
if not matches then return 0 end
redis.call('set', KEYS[1], ARGV[3])
return 1`;
// KEYS: the key, the key of its highest token. ARGV: the writer's token, the new text.
const SET_WITH_TOKEN = `
if tonumber(redis.call('get', KEYS[2]) or '0') > tonumber(ARGV[1]) then return 0 end
redis.call('set', KEYS[2], ARGV[1])
redis.call('set', KEYS[1], ARGV[2])
return 1`;
// Returns the text after a plus, or a minus if the key has no text.
const GET_WITH_TOKEN = `
if tonumber(redis.call('get', KEYS[2]) or '0') > tonumber(ARGV[1]) then return 0 end
redis.call('set', KEYS[2], ARGV[1])
local text = redis.call('get', KEYS[1])
return text and '+' .. text or '-'`;

const CALLED = ["release", "validity", "extend", "check", "owned"]; // functions of a lock
const LOCK = [...CALLED, "token"];

const WARM_UP_LIMIT = 2000; // to acquire a lock for the first time
const WARM_UP_ENDS = 5000; // and to release it

const now = () => Number(process.hrtime.bigint()); // CLOCK_MONOTONIC
const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// The adapter has a mistake; the library is not to blame.
class Mistake extends Error {}
class Refused extends Error {}
class Conflict extends Error {}
class Fenced extends Error {}

// The resource that the lock protects: texts in a separate Redis. After an error the connection is closed and never used
// again.
class Register {
  constructor({ url, kind, fencing }) {
    const { hostname, port } = new URL(url);
    [this.kind, this.fencing] = [kind, fencing];
    this.place = { host: hostname, port: Number(port || 6379) };
    this.socket = null;
    this.number = null; // the server's id of the connection
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

  // Takes the first complete reply, if there is one. Numbers are returned as texts.
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

  // The text under a key; null if there is none. The token matters only if the resource checks tokens of reads.
  async read(key, token) {
    if (this.fencing !== "token-reads" || token === undefined) return this.ask("GET", key);
    const reply = await this.ask("EVAL", GET_WITH_TOKEN, "2", key, key + ":highest-token", String(token));
    if (reply === "0") throw new Fenced(FENCED);
    return reply.startsWith("+") ? reply.slice(1) : null;
  }

  // Writes a text in place of the text that was read.
  async write(key, old, text, token) {
    if (this.fencing === "none") await this.ask("SET", key, text);
    else if (this.fencing === "compare-and-set") {
      const known = old === null ? "absent" : "present";
      const done = await this.ask("EVAL", COMPARE_AND_SET, "1", key, known, old === null ? "" : old, text);
      if (done !== "1") throw new Conflict("the value that was read is no longer current");
    } else if (token === undefined) throw new Refused("the library gave no fencing token");
    else {
      const done = await this.ask("EVAL", SET_WITH_TOKEN, "2", key, key + ":highest-token", String(token), text);
      if (done !== "1") throw new Fenced(FENCED);
    }
  }

  // The identity of a text's last update, and the count for counters and lists.
  understood(text) {
    if (this.kind === "counter") {
      const [number, ...identity] = (text === null ? "0" : text).split(" ");
      return [identity.length ? identity.join(" ") : null, { count: Number(number) }];
    }
    if (this.kind === "list") {
      const elements = text === null ? [] : JSON.parse(text);
      return [elements.length ? elements[elements.length - 1] : null, { count: elements.length }];
    }
    return [text, {}];
  }

  // The text that a holder writes after it has read `text`.
  updated(text, value) {
    if (this.kind === "counter") return `${this.understood(text)[1].count + 1} ${value}`;
    if (this.kind === "list") return JSON.stringify([...(text === null ? [] : JSON.parse(text)), value]);
    return value;
  }

  // Whether nothing that was sent on the broken connection can arrive any more: the server has closed it.
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

// A requested operation, with its reports to the controller. A library may report something before `acquired`, which must
// be reported first. Reports after the operation's end are dropped.
class Operation {
  constructor(invoke) {
    this.invoke = invoke;
    this.early = [];
    this.state = "acquiring";
    this.isLost = null; // the reason, or null
    this.isCancelled = false;
    this.abort = new AbortController();
    this.opened = new Set(); // phases from which it may continue
    this.wake = () => {}; // wakes a wait for a phase or for time
    this.meanwhile = () => Infinity; // does due work while it waits, and returns when more work is due
  }

  // Whether to acquire the lock for reading.
  get shared() {
    return this.invoke.f === "shared";
  }

  // Ends an `acquire` or a `release` that uses it; each call has its own signal.
  get signal() {
    return this.abort.signal;
  }

  open(phase) {
    this.opened.add(phase);
    this.wake();
  }

  // Cancels the operation. If the library is acquiring the lock, it ends this and reports the result.
  cancel() {
    if (!this.asks) this.isCancelled = true;
    this.abort.abort();
    this.wake();
  }

  // Reports a phase, stamped now. At a breakpoint it waits, and then reports the phase again: only then does the operation
  // continue.
  async phase(name, facts = {}) {
    this.report(name, facts);
    if (!(this.invoke.breakpoints || []).includes(name)) return;
    await this.wait(() => this.opened.has(name));
    if (this.opened.has(name)) this.report(name, facts);
  }

  // Waits until `isSo` is true, until this time of the monotonic clock, or until the operation is cancelled.
  async wait(isSo, until = Infinity) {
    const over = () => this.isCancelled || isSo() || performance.now() >= until;
    while (!over()) {
      const next = Math.min(until, await this.meanwhile());
      if (over()) return;
      let timer;
      await new Promise((done) => {
        this.wake = done;
        if (next < Infinity) timer = setTimeout(done, next - performance.now());
      });
      clearTimeout(timer);
    }
  }

  sleepUntil(moment) {
    return this.wait(() => false, moment);
  }

  report(name, facts) {
    say({ type: "phase", id: this.invoke.id, phase: name, mono_ns: now(), ...facts });
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

  // Reports that the library, asked at this time of the monotonic clock, says that the client holds the lock.
  owned(asked) {
    this.tell("owned", { mono_ns: asked });
  }

  lost(reason) {
    if (this.isLost !== null || this.state === "over") return;
    this.isLost = String(reason);
    this.tell("lost", { text: this.isLost });
  }
}

class Client {
  constructor(acquire, settings, register) {
    [this.acquire, this.settings, this.register] = [acquire, settings, register];
  }

  async perform(operation) {
    const { invoke } = operation;
    const end = (type, facts) => ({ type, id: invoke.id, ...facts });
    const fail = (error, text) => end("fail", { error, text });
    if (invoke.f === "read") {
      try {
        const [old, counted] = this.register.understood(await this.register.read(invoke.key));
        return end("ok", { old, ...counted });
      } catch (error) {
        return fail("unavailable", String(error));
      }
    }
    const writes = this.register.kind !== "none";
    if (invoke.f !== "hold" && !(["rmw", "shared"].includes(invoke.f) && writes)) return fail("unsupported", invoke.f);
    try {
      return await this.locked(operation, end, fail);
    } finally {
      operation.state = "over";
    }
  }

  async locked(operation, end, fail) {
    const { key, acquire_timeout_ms: within } = operation.invoke;
    await operation.phase("acquiring");
    const refused = (text) => fail(operation.signal.aborted ? "cancelled" : "not-acquired", text);
    let lock;
    operation.asks = true;
    try {
      lock = await this.acquire("lock:" + key, within, operation);
    } catch (error) {
      return refused(String(error));
    } finally {
      operation.asks = false;
    }
    if (!lock) return refused("");
    understand(lock);
    if (this.settings.flags.has("extend") && !lock.extend) throw new Error("--extend needs `extend` of the lock");
    const facts = lock.validity ? { validity_ms: Math.max(0, Math.floor(lock.validity())) } : {};
    if (lock.token !== undefined) facts.token = Number(lock.token);
    const asks = Boolean(lock.owned && operation.invoke.check_every_ms);
    if (asks) operation.meanwhile = this.asking(operation, lock);
    await operation.phase("acquired", facts);
    const [answer, settled] = await this.work(operation, lock, asks, end, fail);
    if (!settled) return answer;
    operation.meanwhile = () => Infinity; // from now on, the release reports the state
    await operation.phase("releasing");
    const isFree = await this.release(operation, lock);
    const isCancelled = !isFree && operation.signal.aborted;
    const again = operation.invoke.release_again_ms;
    if (isFree) await operation.phase("released");
    if (isCancelled || again) {
      // As `finally` does, or an error handler. The second call's error says nothing about a lock that was already
      // released.
      await sleep(again || 0);
      const isFreeNow = await this.release(operation, lock);
      if (isFreeNow && !isFree) await operation.phase("released");
      if (!isFreeNow && again && answer.type === "ok") answer.text = `released again: ${operation.refusal}`;
    }
    return isCancelled && answer.type === "ok" ? end("info", { error: "cancelled", text: "while it gave the lock back" }) : answer;
  }

  async release(operation, lock) {
    operation.abort = new AbortController();
    try {
      await lock.release();
      return true;
    } catch (error) {
      operation.refusal = String(error);
      console.error("release:", error); // it is unknown whether the lock is free, so `released` is not reported
      return false;
    }
  }

  // Does the work under the lock. Returns the answer, and whether the lock may be released afterwards.
  async work(operation, lock, asks, end, fail) {
    const { register } = this;
    const { f, key, value } = operation.invoke;
    const cancelled = () => [fail("cancelled", "before it wrote"), true];
    if (operation.isCancelled) return cancelled();
    if (f === "hold") {
      await this.think(operation, lock);
      return operation.isCancelled ? cancelled() : [end("ok", {}), true];
    }
    let text, old, counted, updated;
    try {
      text = await register.read(key, lock.token);
    } catch (error) {
      return [fail(error instanceof Fenced ? "fenced" : "unavailable", String(error)), true];
    }
    try {
      [old, counted] = register.understood(text);
      updated = operation.shared ? null : register.updated(text, value);
    } catch (error) {
      return [fail("unsupported", String(error)), true];
    }
    await operation.phase("read", { value: old, ...counted });
    await this.think(operation, lock);
    if (operation.isCancelled) return cancelled();
    if (lock.check && operation.isLost === null) await this.ask(operation, lock.check, "it is no longer held");
    if (asks && operation.isLost === null) await this.askOwned(operation, lock);
    if (operation.isLost !== null) return [fail("lock-lost", operation.isLost), true];
    if (operation.shared) return [end("ok", { old, ...counted }), true];
    await operation.phase("before-write");
    if (operation.isCancelled) return cancelled();
    try {
      await register.connect();
    } catch (error) {
      return [fail("unavailable", String(error)), true];
    }
    try {
      await register.write(key, text, updated, lock.token);
    } catch (error) {
      if (error instanceof Conflict) return [fail("conflict", error.message), true];
      if (error instanceof Fenced) return [fail("fenced", error.message), true];
      if (error instanceof Refused) return [fail("unavailable", error.message), true];
      // It is unknown whether the write took effect, or will. The lock is kept until the write cannot arrive any more.
      const settled = await register.cutOff();
      return [end("info", { error: "connection-lost", text: String(error) }), settled];
    }
    await operation.phase("written");
    return [end("ok", { old, new: value, ...counted }), true];
  }

  // Waits for the operation's hold time; with the flag `extend`, for longer than the TTL, and extends the lock meanwhile.
  async think(operation, lock) {
    const until = performance.now() + operation.invoke.hold_ms + (this.settings.flags.has("extend") ? this.settings.ttl : 0);
    const every = this.settings.flags.has("extend") ? this.settings.ttl * EXTEND_AFTER : Infinity;
    for (let due = performance.now() + every; due < until; due = performance.now() + every) {
      await operation.sleepUntil(due);
      if (operation.isCancelled || operation.isLost !== null) break;
      const validity = await this.ask(operation, lock.extend, "it could not be extended");
      if (operation.isLost === null) operation.extended(typeof validity === "number" ? validity : undefined);
    }
    if (Number.isFinite(until)) await operation.sleepUntil(until);
  }

  // Asks the library whether the client holds the lock, whenever this is due. Returns when it is due again.
  asking(operation, lock) {
    const every = operation.invoke.check_every_ms;
    let due = performance.now() + every;
    return async () => {
      if (operation.isLost !== null) return Infinity;
      if (performance.now() >= due) {
        await this.askOwned(operation, lock);
        due = performance.now() + every;
      }
      return due;
    };
  }

  async askOwned(operation, lock) {
    const asked = now();
    try {
      if ((await lock.owned()) === false) operation.lost("it is no longer owned");
      else operation.owned(asked);
    } catch (error) {
      console.error("owned:", error); // without an answer, the state is unknown
    }
  }

  // Calls a function of the library; false or an exception means that the lock is lost.
  async ask(operation, what, otherwise) {
    try {
      const answer = await what();
      if (answer === false) operation.lost(otherwise);
      return answer;
    } catch (error) {
      console.error(error);
      operation.lost(String(error));
    }
  }
}

// Throws if an adapter returned something that is not a lock, or a lock with unknown fields.
function understand(lock) {
  const wrong = (text) => {
    throw new Mistake(`${text}; a lock is an object of its own with release(), and may have validity(), token, extend(), check(), owned()`);
  };
  if (typeof lock !== "object") wrong(`\`acquire\` gave a ${typeof lock}`);
  // A lock object of the library itself may have any fields.
  if (Object.getPrototypeOf(lock) !== Object.prototype && typeof lock.release === "function") return;
  for (const field of Object.keys(lock)) if (!LOCK.includes(field)) wrong(`the lock has an unknown field \`${field}\``);
  for (const field of CALLED) {
    const isMissing = lock[field] === undefined && field !== "release";
    if (!isMissing && typeof lock[field] !== "function") wrong(`\`${field}\` of the lock is no function`);
  }
  const { token } = lock;
  const isNumber = ["number", "bigint", "string"].includes(typeof token) && /^\d+$/.test(String(token));
  if (token !== undefined && !isNumber) wrong(`\`token\` of the lock is no whole number`);
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

// Creates a client for each thread that the run wants; all share the result of `connect`.
async function started(hello, connect, flags) {
  const { lock, resource } = hello;
  const refuseOthers = (what, known, wanted) => {
    if (!known.includes(wanted)) throw new Error(`this client knows ${what} ${known.join(", ")}, not ${wanted}`);
  };
  refuseOthers("protocol", [1, 2], hello.protocol);
  refuseOthers("the resources", KINDS, resource.kind);
  refuseOthers("the fencings", FENCINGS, resource.fencing);
  if (lock.group) throw new Error("this client takes nodes that are independent of each other");
  const options = lock.options || {};
  const settings = {
    ttl: lock.ttl_ms,
    nodes: lock.nodes,
    nodeTimeout: options.node_timeout_ms || lock.ttl_ms,
    retryDelay: options.retry_delay_ms || [10, 50],
    permits: options.permits || 1,
    client: hello.client,
    options,
    flags,
  };
  const registers = Array.from({ length: hello.threads || 1 }, () => new Register(resource));
  if (resource.kind !== "none") for (const register of registers) await reached(() => register.connect());
  const acquire = await reached(() => connect(settings));
  await warmUp(acquire, (hello.key_prefix || "") + "warm-up:" + hello.client);
  return registers.map((register) => new Client(acquire, settings, register));
}

// Acquires a lock of its own and releases it. The first lock loads code, connects, and loads the library's scripts into the
// nodes, which must not count towards an operation. A node may be down just now, so a failure does not prevent the start.
async function warmUp(acquire, key) {
  const once = async () => {
    const lock = await acquire(key, WARM_UP_LIMIT, new Operation({}));
    if (!lock) return;
    understand(lock);
    await lock.release();
  };
  const late = new Promise((done) => setTimeout(done, WARM_UP_ENDS).unref());
  try {
    await Promise.race([once(), late]);
  } catch (error) {
    if (error instanceof Mistake) throw error;
    console.error("warm-up:", error);
  }
}

// A package's version, from the folder from which it was loaded: not every package allows to require its package.json.
function versionOf(name) {
  const { version } = JSON.parse(fs.readFileSync(path.join(folderOf(name), "package.json")));
  return version.replace(/^v/, ""); // some write it with a `v`
}

function folderOf(name) {
  const main = require.resolve(name);
  const inside = path.join("node_modules", name);
  return main.slice(0, main.lastIndexOf(inside) + inside.length);
}

// The adapter's options that are on the command line.
function given(known) {
  const said = process.argv.slice(2).map((argument) => argument.replace(/^--/, ""));
  const unknown = said.find((flag) => !known.includes(flag));
  if (unknown !== undefined) throw new Error(`unknown option --${unknown}; it has ${known.join(", ") || "none"}`);
  return new Set(said);
}

// Blocks the loop for this long, as a long computation would.
function block(ms) {
  say({ type: "blocked", mono_ns: now() });
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  say({ type: "unblocked", mono_ns: now() });
}

function serve(name, connect, library, { flags = [], cancels = false, shared = false, once = false } = {}) {
  console.log = console.error; // the library's output is not a message
  let clients = [];
  const operations = new Map(); // operations that are not over
  const act = async (message) => {
    // A late message is for an operation that is over.
    const known = operations.get(message.id);
    if (message.type === "hello") {
      try {
        const version = library ? ` ${versionOf(library)}` : "";
        const flagged = given(flags);
        const variant = flagged.size ? ` (${[...flagged].sort().join(", ")})` : "";
        clients = await started(message, connect, flagged);
        const { protocol } = message;
        const can = ["threads", "block", ...(once ? [] : ["release-again"]), ...(cancels ? ["cancel"] : []), ...(shared ? ["shared"] : [])];
        const capabilities = protocol === 1 ? [] : can;
        say({ type: "ready", protocol, name: name + version + variant, capabilities });
      } catch (error) {
        say({ type: "failed", text: String(error && error.message) });
      }
    } else if (message.type === "invoke") {
      const operation = new Operation(message);
      operations.set(message.id, operation);
      const answer = await clients[message.thread || 0].perform(operation);
      operations.delete(message.id);
      say(answer);
    } else if (message.type === "go") known && known.open(message.phase);
    else if (message.type === "cancel") known && known.cancel();
    else if (message.type === "block") block(message.ms);
    else if (message.type === "bye") process.exit(0);
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
