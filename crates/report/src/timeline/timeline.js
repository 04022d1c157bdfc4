// The timeline and the table of a run's operations. It reads the data that the page carries, asks nobody for anything, and
// puts every text into the page as text. Times are microseconds since the run began. What each column means: data.rs.
(async () => {
"use strict";
const $ = (selector) => document.querySelector(selector);
const root = $(".tl"), view = $(".tl-view"), map = $(".tl-map"), main = $(".tl-main"), detail = $(".tl-detail");
const make = (tag, text, cls) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; if (cls) e.className = cls; return e; };
if (!root) return; // a history without operations
root.hidden = false;
if (!window.DecompressionStream) { root.replaceChildren(make("p", "This browser can't unpack the page's data; one of 2023 or later can.", "note")); return; }
const packed = Uint8Array.from(atob(JSON.parse($("#timeline-data").textContent)), (c) => c.charCodeAt(0));
const D = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).json();

// ---- data -------------------------------------------------------------------------------------------------------------
const O = D.operations, N = O.client.length, WORDS = ["rmw", "hold", "read", "write", "cas", "shared"], OUTCOMES = ["ok", "fail", "info"];
const PHASES = ["acquiring", "half-acquired", "acquired", "extended", "read", "before-write", "written", "lost", "releasing", "half-released", "released"];
const line = new Float64Array(N), invoked = new Float64Array(N), firstPhase = new Uint32Array(N + 1), token = new Map(O.tokens);
for (let i = 0, l = 0, t = 0; i < N; i++) { line[i] = l += O.line[i]; invoked[i] = t += O.invoked[i]; firstPhase[i + 1] = firstPhase[i] + O.phases[i]; }
const ended = (i) => O.took[i] < 0 ? D.end : invoked[i] + O.took[i];
const text = (place) => place ? D.texts[place - 1] : "";
const who = (c) => D.clients[c] ?? "controller";
const seconds = (t, digits = 6) => (t / 1e6).toFixed(digits) + " s";
const long = (t) => t < 1e4 ? (t / 1e3).toFixed(1) + " ms" : t < 1e6 ? Math.round(t / 1e3) + " ms" : (t / 1e6).toFixed(2) + " s";

// A lane has items in the order of their beginnings, and draws itself; `tell` says all about one of them.
const lanes = [];
const ofClient = D.clients.map(() => []);
for (let i = 0; i < N; i++) ofClient[O.client[i]]?.push(i);
if (D.faults.length || D.incidents.length) {
  const marks = D.faults.map((fault) => ({ fault, from: fault.from, to: fault.to ?? D.end }))
    .concat(D.incidents.map((incident, place) => ({ incident, place, from: incident.time, to: incident.time }))).sort((a, b) => a.from - b.from);
  // Faults at the same time lie below each other.
  const rows = [];
  for (const mark of marks.filter((mark) => mark.fault)) {
    const free = rows.findIndex((end) => end < mark.from);
    mark.row = free >= 0 ? free : Math.min(rows.length, 3);
    rows[mark.row] = mark.to;
  }
  lanes.push({ kind: "marks", name: "faults", h: 18 + 16 * Math.max(1, rows.length), items: marks, from: (m) => m.from, to: (m) => m.to });
}
const small = D.clients.length > 24;
D.clients.forEach((name, place) => lanes.push({ kind: "client", name, place, h: small ? 12 : 28, items: ofClient[place], from: (i) => invoked[i], to: ended }));
const lives = D.nodes.map(() => []);
D.servers?.lives.forEach((life) => lives[life.node]?.push(life));
D.nodes.forEach((name, place) => lanes.push({ kind: "node", name, place, h: D.nodes.length > 20 ? 16 : 30, items: lives[place], from: (l) => l.from, to: (l) => l.to }));
const writesOf = D.keys.map(() => []), readsOf = D.keys.map(() => []);
for (let i = 0; i < N; i++) {
  if (O.effect[i] >= 0) writesOf[O.key[i]].push({ i, from: invoked[i] + O.effect[i], to: D.end });
  if (O.got[i] >= 0) readsOf[O.key[i]].push(invoked[i] + O.got[i]);
}
const shownKeys = writesOf.map((w, k) => [w.length, k]).filter(([n]) => n).sort((a, b) => b[0] - a[0]).slice(0, 8).map(([, k]) => k).sort((a, b) => a - b);
for (const k of shownKeys) {
  const writes = writesOf[k].sort((a, b) => a.from - b.from);
  writes.forEach((write, place) => { if (place) writes[place - 1].to = write.from; });
  readsOf[k].sort((a, b) => a - b);
  lanes.push({ kind: "resource", name: D.keys.length > 1 ? D.keys[k] : "resource", key: k, h: 28, items: writes, from: (w) => w.from, to: (w) => w.to });
}
// How many items begin before a time.
const before = (lane, time) => {
  let low = 0, high = lane.items.length;
  while (low < high) { const mid = (low + high) >> 1; if (lane.from(lane.items[mid]) < time) low = mid + 1; else high = mid; }
  return low;
};
// Lives of several keys overlap: how far back a visible one can begin.
const longest = (lane) => lane.longest ??= lane.items.reduce((most, item) => Math.max(most, lane.to(item) - lane.from(item)), 0);
const replicas = D.servers?.roles.some(([, , primary]) => !primary);

// ---- view -------------------------------------------------------------------------------------------------------------
let from = 0, to = D.end, chosenLane = null, chosen = null, asked = false, C = {};
const GUTTER = 74, AXIS = 24, LEAST = 200, MAP = 40;
const X = (t) => GUTTER + (t - from) / (to - from) * (width - GUTTER);
const T = (x) => from + (x - GUTTER) / (width - GUTTER) * (to - from);
let width = 0, height = 0, mapped = null;
const pen = main.getContext("2d"), mapPen = map.getContext("2d");
let y = AXIS;
for (const lane of lanes) { lane.y = y; y += lane.h + 4; }
height = y + 6;

const LIGHT = ["#2f6fd0", "#c4611a", "#23875b", "#8a4fbf", "#a07a16", "#0f8296", "#b8478f", "#5f7a1c"];
const DARK = ["#6ea8ff", "#f0984f", "#4cc28c", "#b98aec", "#d8b44c", "#4fc3d6", "#e07fbb", "#b5cc5a"];
const dark = matchMedia("(prefers-color-scheme: dark)");
function colours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ink", "muted", "line", "paper", "soft", "bad", "warn", "pause", "pause-ink", "pause-wash", "bad-wash", "by-time"]) C[name] = style.getPropertyValue("--" + name).trim();
  C.font = "12px system-ui, 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif";
  mapped = null;
}
const colour = (c) => c < 0 || c === undefined ? C.muted : D.clients.length <= 8 ? (dark.matches ? DARK : LIGHT)[c] : `hsl(${(c * 137.5 + 215) % 360} 55% ${dark.matches ? 64 : 42}%)`;

function fit(canvas, w, h) {
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = h + "px";
  canvas.width = Math.round(w * ratio); canvas.height = Math.round(h * ratio);
  canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
}
function resize() {
  width = view.clientWidth;
  fit(main, width, height); fit(map, width, MAP);
  mapped = null; redraw();
}
function show(newFrom, newTo, quietly) {
  const span = Math.min(Math.max(newTo - newFrom, LEAST), D.end);
  from = Math.min(Math.max(newFrom, 0), D.end - span); to = from + span;
  redraw();
  if (!quietly) saySoon();
}
const zoom = (factor, around = (from + to) / 2) => show(around - (around - from) * factor, around + (to - around) * factor);
const pan = (part) => show(from + (to - from) * part, to + (to - from) * part);
function redraw() { if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; draw(); }); } }

let saying = 0;
function saySoon() {
  clearTimeout(saying);
  saying = setTimeout(() => {
    const hash = address();
    $(".tl-link").href = hash;
    try { history.replaceState(null, "", hash); } catch { /* Some places forbid it to files. */ }
    if ($(".ops-view").checked) filter();
  }, 150);
}
const address = () => `#t=${(from / 1e6).toFixed(4)}-${(to / 1e6).toFixed(4)}`;
function follow() {
  const found = /^#t=([\d.]+)-([\d.]+)$/.exec(location.hash);
  if (!found || !(found[2] - found[1] > 0)) return false;
  show(found[1] * 1e6, found[2] * 1e6, true);
  $(".tl-link").href = location.hash;
  return true;
}

// ---- drawing ----------------------------------------------------------------------------------------------------------
function bar(x0, x1, y0, h, fill) { pen.fillStyle = fill; pen.fillRect(x0, y0, Math.max(x1 - x0, 1), h); }
function hatch(x0, x1, y0, h, stroke, gap = 5) {
  x0 = Math.max(x0, GUTTER); x1 = Math.min(x1, width);
  if (x1 <= x0) return;
  pen.save(); pen.beginPath(); pen.rect(x0, y0, x1 - x0, h); pen.clip();
  pen.strokeStyle = stroke; pen.lineWidth = 1; pen.beginPath();
  for (let x = x0 - h; x < x1; x += gap) { pen.moveTo(x, y0 + h); pen.lineTo(x + h, y0); }
  pen.stroke(); pen.restore();
}
function label(text, x, y0, fill, align = "left") { pen.fillStyle = fill; pen.textAlign = align; pen.fillText(text, x, y0); }
// A text that is read on whatever is below it.
function plate(text, x, y0, fill) { const w = pen.measureText(text).width; pen.globalAlpha = .85; bar(x - 2, x + w + 2, y0 - 7, 14, C.paper); pen.globalAlpha = 1; label(text, x, y0 + .5, fill); }
function fits(text, space) { return pen.measureText(text).width + 6 < space; }

function draw() {
  // Not laid out yet: it is drawn again once it is.
  if (width <= GUTTER || !map.width) return;
  pen.clearRect(0, 0, width, height);
  pen.font = C.font; pen.textBaseline = "middle";
  axis();
  pen.save(); pen.beginPath(); pen.rect(GUTTER, AXIS - 4, width - GUTTER, height); pen.clip();
  for (const [a, b] of D.stalls) bar(X(a), X(b), AXIS, height, C.soft);
  for (const lane of lanes) {
    bar(GUTTER, width, lane.y + lane.h + 1.5, 1, C.line);
    drawing[lane.kind](lane);
  }
  drawMap();
  if (chosen !== null) outline();
  pen.restore();
  for (const lane of lanes) {
    const strong = lane === chosenLane;
    pen.font = (strong ? "700 " : "") + (lane.h < 14 ? C.font.replace("12px", "9px") : C.font);
    const name = lane.name.length > 11 ? lane.name.slice(0, 10) + "…" : lane.name;
    label(name, GUTTER - 8, lane.y + lane.h / 2, lane.kind === "client" ? colour(lane.place) : C.ink, "right");
  }
  pen.font = C.font;
  $(".tl-range").textContent = `${seconds(from, to - from < 1e5 ? 4 : 3)} to ${seconds(to, to - from < 1e5 ? 4 : 3)}, ${long(to - from)}`;
}
function axis() {
  const aim = (to - from) / Math.max(3, (width - GUTTER) / 110);
  const unit = 10 ** Math.floor(Math.log10(aim));
  const step = [1, 2, 5, 10].map((n) => n * unit).find((s) => s >= aim);
  const digits = Math.max(0, Math.min(6, 6 - Math.floor(Math.log10(step))));
  pen.strokeStyle = C.line; pen.lineWidth = 1; pen.beginPath();
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
    const x = X(t);
    pen.moveTo(x, AXIS - 5); pen.lineTo(x, height);
    if (x > GUTTER + 18 && x < width - 20) label((t / 1e6).toFixed(digits) + " s", x, 10, C.muted, "center");
  }
  pen.stroke();
}
function visible(lane, each) {
  const first = lane.kind === "marks" ? 0 : lane.kind === "client" ? Math.max(0, before(lane, from) - 1) : before(lane, from - longest(lane));
  // One after the other, so of those that begin and end within half a pixel one stands for all; none that is lost is left out.
  const coarse = (lane.kind === "client" || lane.kind === "resource") && lane.items.length > 4 * width;
  const half = (to - from) / width / 2;
  for (let p = first; p < lane.items.length;) {
    const item = lane.items[p];
    if (lane.from(item) > to) break;
    if (lane.to(item) >= from) each(item);
    p = Math.max(p + 1, coarse ? before(lane, lane.to(item) + half) - 1 : 0);
  }
  if (coarse) {
    lane.lost ??= lane.items.filter((item) => O.lost[item.i ?? item]);
    for (const item of lane.lost) if (lane.to(item) >= from && lane.from(item) <= to) each(item);
  }
}
function struck(lane) {
  for (const fault of D.faults) {
    const direct = fault.targets.includes(lane.name);
    if (!direct && !fault.others.includes(lane.name)) continue;
    const x0 = X(fault.from), x1 = X(fault.to ?? D.end);
    if (x1 < GUTTER || x0 > width) continue;
    bar(x0, x1, lane.y - 1, lane.h + 3, C["pause-wash"]);
    if (direct) bar(x0, x1, lane.y - 1, 2.5, C.pause);
  }
}
const counted = (a, b) => D.full.length && !D.full.some(([f, t]) => f <= a && b <= t);
const drawing = {
  marks(lane) {
    const right = [];
    visible(lane, ({ fault, row, from: a, to: b }) => {
      if (!fault) return;
      const x0 = Math.max(X(a), GUTTER), x1 = Math.min(Math.max(X(b), x0 + 2), width);
      const top = lane.y + 18 + 16 * row;
      bar(x0, x1, top, 14, C.pause);
      const named = `${fault.label}: ${fault.targets.slice(0, 4).join(", ")}${fault.targets.length > 4 ? ", …" : ""}${fault.observed ? "" : " (not observed)"}`;
      const long = pen.measureText(named).width + 6;
      if (x0 > (right[row] ?? -1) && x0 + long < width) { label(named, x0 + 3, top + 7.5, x1 - x0 > long ? C["pause-ink"] : C.ink); right[row] = x0 + long; }
    });
    let last = -20;
    visible(lane, ({ incident, place, from: a }) => {
      const x = X(a);
      if (!incident || x - last < 3) return;
      pen.fillStyle = incident.claimed ? C.bad : C.muted;
      pen.beginPath(); pen.moveTo(x, lane.y + 16); pen.lineTo(x - 5, lane.y + 6); pen.lineTo(x + 5, lane.y + 6); pen.fill();
      if (x - last > 26) label(String(place + 1), x + 7, lane.y + 8, pen.fillStyle);
      last = x;
    });
  },
  client(lane) {
    struck(lane);
    const mid = lane.y + lane.h / 2, tall = small ? 4 : 7, own = colour(lane.place);
    if (D.full.length) {
      const bins = D.bins[lane.place], w = D.end / bins.length;
      for (let b = Math.max(0, Math.floor(from / w)); b < bins.length && b * w < to; b++) {
        const [ok, fail, info, held] = bins[b];
        if (ok + fail + info + held && counted(b * w, (b + 1) * w)) {
          pen.globalAlpha = .35; bar(X(b * w), X((b + 1) * w), lane.y + lane.h - lane.h * Math.max(held, 80) / 1000, lane.h * Math.max(held, 80) / 1000, own); pen.globalAlpha = 1;
        }
      }
    }
    let last = -1, lastMark = -1;
    visible(lane, (i) => {
      const x1 = X(ended(i));
      if (x1 - last < .7 && !O.lost[i]) return;
      const x0 = X(invoked[i]);
      if (x1 - x0 > 1) bar(x0, x1, mid - .5, 1, C.muted);
      if (O.held[i] >= 0) {
        const h0 = X(invoked[i] + O.held[i]), h1 = X(invoked[i] + O.held[i] + O.hold[i]);
        const half = reads(i) ? tall / 2 : tall;
        bar(h0, h1, mid - half, 2 * half, own);
        const valid = O.valid[i] >= 0 ? X(invoked[i] + O.held[i] + O.valid[i]) : Infinity;
        if (valid < h1) { bar(valid, h1, mid - half, 2 * half, C.paper); hatch(valid, h1, mid - half, 2 * half, own, 4); bar(valid, valid + 1, mid - tall - 3, 2 * tall + 6, C.bad); }
        if (token.has(i) && fits("#" + token.get(i), Math.min(h1, valid) - h0)) label("#" + token.get(i), h0 + 4, mid + .5, C.paper);
      }
      last = x1;
      if (x1 - lastMark < 6 && !O.lost[i]) return;
      lastMark = x1;
      if (O.got[i] >= 0) triangle(X(invoked[i] + O.got[i]), mid + tall + 1);
      if (O.effect[i] >= 0) diamond(X(invoked[i] + O.effect[i]), mid, O.lost[i] ? C.bad : C.ink, O.lost[i]);
      if (O.outcome[i] === 2) label("?", x1 + 3, mid - 6, C.warn);
      else if (O.outcome[i] === 1 && x1 - x0 > 6) label("×", x1 + 2, mid, C.muted);
    });
  },
  node(lane) {
    struck(lane);
    const top = lane.y + 2, h = lane.h - 3;
    for (const [place, a, b] of D.servers?.unseen ?? []) if (place === lane.place) hatch(X(a), X(b), top, h, C.muted, 7);
    if (D.servers?.until) hatch(X(D.servers.until), X(D.end), top, h, C.muted, 7);
    let last = -1;
    visible(lane, (life) => {
      const x0 = X(life.from), x1 = Math.max(X(life.to), x0 + .5);
      if (x1 - last < .6) return;
      const own = colour(life.owner);
      pen.globalAlpha = life.owner < 0 ? .3 : .25; bar(x0, x1, top, h, own); pen.globalAlpha = 1;
      // What is left of its life, as a slope that ends at the lane's foot.
      if (x1 - x0 > 3 && D.ttl) {
        pen.fillStyle = own; pen.globalAlpha = .8; pen.beginPath(); pen.moveTo(x0, top + h);
        life.ends.forEach(([at, end], n) => {
          const until = Math.min(life.ends[n + 1]?.[0] ?? life.to, life.to);
          const left = (t) => top + h - h * (end ? Math.max(0, Math.min(1, (end - t) / D.ttl)) : 1);
          pen.lineTo(X(at), left(at)); pen.lineTo(X(until), left(until));
        });
        pen.lineTo(x1, top + h); pen.fill(); pen.globalAlpha = 1;
      }
      bar(x0, x0 + 1, top, h, own);
      if (life.how === 1 || life.how === 4) bar(x1 - 1, x1 + 1, top, h, C.bad);
      const named = life.owner < 0 ? "?" : who(life.owner);
      if (h > 16 && fits(named, x1 - x0)) label(named, x0 + 4, top + 7, C.ink);
      last = x1;
    });
    const changes = (list) => list.filter(([place]) => place === lane.place);
    if (replicas) changes(D.servers.roles).forEach(([, at, primary], n, all) => {
      const x0 = Math.max(X(at), GUTTER), x1 = X(all[n + 1]?.[1] ?? D.end);
      if (!primary) bar(x0, x1, top + h - 2, 2, C.muted); else bar(x0, x1, top + h - 2, 2, C["by-time"]);
      if (x1 > GUTTER && x0 < width && fits("replica", x1 - x0)) plate(primary ? "primary" : "replica", x0 + 4, top + h - 8, primary ? C["by-time"] : C.muted);
    });
    changes(D.servers?.clocks ?? []).forEach(([, at, ahead], n, all) => {
      const x0 = X(at), named = `clock ${ahead < 0 ? "−" : "+"}${long(Math.abs(ahead))}`;
      if (Math.abs(ahead) < 2e4 || x0 > width || X(all[n + 1]?.[1] ?? D.end) < GUTTER) return;
      bar(x0, x0 + 1.5, top, h, C.warn); plate(named, Math.max(x0, GUTTER) + 4, top + h - 7, C.warn);
    });
    for (const [a, b, node] of D.promotions) if (node === lane.name) { const x = X(b); bar(x - 1, x + 1, lane.y - 2, lane.h + 4, C.warn); plate("promoted", x + 4, top + 7, C.warn); }
  },
  resource(lane) {
    struck(lane);
    const top = lane.y + 4, h = lane.h - 10;
    let last = -1;
    visible(lane, (write) => {
      const x0 = X(write.from), x1 = Math.max(X(write.to), x0 + .5), lost = O.lost[write.i];
      if (x1 - last < .6 && !lost) return;
      pen.globalAlpha = .55; bar(x0, x1, top, h, colour(O.client[write.i])); pen.globalAlpha = 1;
      bar(x0, x0 + 1, top - 2, h + 4, lost ? C.bad : C.ink);
      if (lost) { hatch(x0, x1, top, h, C.bad, 5); bar(x0, x0 + 2.5, top - 3, h + 6, C.bad); }
      const value = text(O.wrote[write.i]);
      if (fits(value, x1 - x0)) label(value, x0 + 4, top + h / 2, C.ink);
      last = x1;
    });
    const reads = readsOf[lane.key];
    let low = 0, high = reads.length, lastRead = -1;
    while (low < high) { const mid = (low + high) >> 1; if (reads[mid] < from) low = mid + 1; else high = mid; }
    for (let p = low; p < reads.length && reads[p] <= to; p++) { const x = X(reads[p]); if (x - lastRead > 3) { triangle(x, top + h + 1); lastRead = x; } }
  },
};
function triangle(x, y0) { pen.fillStyle = C.muted; pen.beginPath(); pen.moveTo(x, y0); pen.lineTo(x - 3, y0 + 5); pen.lineTo(x + 3, y0 + 5); pen.fill(); }
function diamond(x, y0, fill, big) {
  const r = big ? 5 : 3.5;
  pen.fillStyle = fill; pen.strokeStyle = C.paper; pen.lineWidth = 1;
  pen.beginPath(); pen.moveTo(x, y0 - r); pen.lineTo(x + r, y0); pen.lineTo(x, y0 + r); pen.lineTo(x - r, y0); pen.closePath(); pen.fill(); pen.stroke();
}
function outline() {
  const x0 = X(chosenLane.from(chosen)), x1 = X(chosenLane.to(chosen));
  pen.strokeStyle = C.ink; pen.lineWidth = 1.5;
  pen.strokeRect(x0 - 2, chosenLane.y - .5, Math.max(x1 - x0, 1) + 4, chosenLane.h + 2);
}
function drawMap() {
  const span = width - GUTTER, at = (t) => GUTTER + t / D.end * span;
  if (!mapped) {
    mapped = document.createElement("canvas"); mapped.width = map.width; mapped.height = map.height;
    const own = mapped.getContext("2d"); own.setTransform(mapPen.getTransform());
    own.fillStyle = C.soft; own.fillRect(GUTTER, 0, span, MAP);
    own.fillStyle = C["pause-wash"];
    for (const fault of D.faults) own.fillRect(at(fault.from), 0, Math.max(1, at(fault.to ?? D.end) - at(fault.from)), MAP);
    // How many operations ended, column by column.
    const columns = new Float64Array(Math.max(1, Math.ceil(span)));
    const count = (t, n) => { columns[Math.min(columns.length - 1, Math.floor(t / D.end * span))] += n; };
    if (D.full.length) D.bins.forEach((bins) => bins.forEach(([ok, fail, info], b) => count((b + .5) * D.end / bins.length, ok + fail + info)));
    else for (let i = 0; i < N; i++) count(ended(i), 1);
    const most = columns.reduce((a, b) => Math.max(a, b), 1);
    own.fillStyle = C.muted;
    columns.forEach((n, x) => { if (n) own.fillRect(GUTTER + x, MAP - 2 - n / most * (MAP - 14), 1, n / most * (MAP - 14)); });
    for (const incident of D.incidents) { own.fillStyle = incident.claimed ? C.bad : C.muted; own.fillRect(at(incident.time) - 1, 2, 2, 9); }
  }
  mapPen.clearRect(0, 0, width, MAP);
  mapPen.save(); mapPen.setTransform(1, 0, 0, 1, 0, 0); mapPen.drawImage(mapped, 0, 0); mapPen.restore();
  mapPen.font = C.font; mapPen.textBaseline = "middle"; mapPen.textAlign = "right"; mapPen.fillStyle = C.muted;
  mapPen.fillText("whole run", GUTTER - 8, MAP / 2);
  mapPen.strokeStyle = C.ink; mapPen.lineWidth = 1.5;
  mapPen.strokeRect(at(from) + .75, .75, Math.max(3, at(to) - at(from)) - 1.5, MAP - 1.5);
}

// ---- telling ----------------------------------------------------------------------------------------------------------
function rows(pairs) {
  const table = make("table"), body = make("tbody");
  for (const cells of pairs) { const row = make("tr"); cells.forEach((cell) => row.append(make("td", cell))); body.append(row); }
  table.append(body); return table;
}
const isLockOf = (name, key) => { const place = name.indexOf("lock:" + key); return place >= 0 && /^}*$/.test(name.slice(place + 5 + key.length)); };
function heldAt(time, key) {
  if (!D.servers) return [];
  return D.nodes.map((name, place) => {
    if (D.servers.unseen.some(([p, a, b]) => p === place && a <= time && time <= b)) return [name, "not observed"];
    const lane = lanes.find((one) => one.kind === "node" && one.place === place);
    const there = [];
    // What was seen a little later may have been there already: it came between two looks.
    for (let p = before(lane, time + D.servers.every * 5e3 + 1) - 1; p >= 0 && p > before(lane, time - longest(lane)) - 2; p--) {
      const life = lane.items[p];
      if (life.to < time || Math.min(life.after, life.from) > time || (key && !isLockOf(life.key, key))) continue;
      const end = (life.ends.filter(([at]) => at <= time).pop() ?? life.ends[0])[1];
      there.push(`${life.key} = ${life.value.length > 14 ? life.value.slice(0, 12) + "…" : life.value}${life.owner < 0 ? "" : ", " + who(life.owner) + "'s"}, ${end ? "expires in " + long(end - time) : "no TTL"}${life.from > time ? " (appeared between " + seconds(life.after, 3) + " and " + seconds(life.from, 3) + ")" : ""}`);
    }
    return [name, there.join("; ") || "no lock observed"];
  });
}
function around(time) {
  const near = D.logs.filter(([at]) => Math.abs(at - time) < 2e5).slice(0, 12);
  return near.map(([at, member, said]) => [seconds(at, 3), member, said]);
}
const reads = (i) => WORDS[O.f[i]] === "shared";
const tells = {
  client(i) {
    const facts = [[seconds(invoked[i]), `index ${line[i]}`, `${who(O.client[i])} begins ${WORDS[O.f[i]]} of ${D.keys[O.key[i]]}${O.wrote[i] ? ", to write " + text(O.wrote[i]) : ""}`]];
    for (let p = firstPhase[i], at = invoked[i], index = line[i]; p < firstPhase[i + 1]; p++) {
      at += O.at[p]; index += O.on[p];
      const word = PHASES[O.phase[p]];
      facts.push([seconds(at), `index ${index}`, word + (word === "read" && O.read[i] ? " " + text(O.read[i]) : "") + (word === "acquired" && token.has(i) ? ", token " + token.get(i) : "") + (word === "acquired" && O.valid[i] >= 0 ? ", valid for at most " + long(O.valid[i]) : "")]);
    }
    facts.push([O.took[i] < 0 ? "" : seconds(ended(i)), "", (O.took[i] < 0 ? "never ended" : OUTCOMES[O.outcome[i]]) + (O.error[i] ? ": " + text(O.error[i]) : "")]);
    return { title: `${who(O.client[i])}, ${WORDS[O.f[i]]} of ${D.keys[O.key[i]]}: ${OUTCOMES[O.outcome[i]]}${O.lost[i] ? ", and its acknowledged update is LOST" : ""}`, facts, time: invoked[i] + Math.max(O.held[i], 0), key: D.keys[O.key[i]] };
  },
  node(life) {
    const facts = [[seconds(life.from), D.servers.every ? `appeared at most ${long(life.from - life.after)} earlier` : "", `${life.key} = ${life.value}`]];
    for (const [at, end] of life.ends) facts.push([seconds(at), "", end ? `expires ${long(end - at)} later, at ${seconds(end, 3)}` : "no TTL"]);
    facts.push([seconds(life.to), "", ["removed before it expired", "expired", "replaced by another value", "still there at the last observation", "gone when observed after its expiry"][life.how]]);
    return { title: `${D.nodes[life.node]} held ${life.key}: ${life.owner < 0 ? "of an unknown client" : "of " + who(life.owner) + ", inferred from the time at which it appeared"}`, facts, time: life.from };
  },
  resource(write) { return tells.client(write.i); },
  marks({ fault, incident, place }) {
    if (incident) return { title: `Incident ${place + 1}: ${incident.what}`, facts: [[seconds(incident.time), `indices ${incident.lines.join(", ")}`, "its operations"]], time: incident.time };
    return { title: `Fault ${fault.number}: ${fault.targets.join(", ")} ${fault.label}`, time: fault.from, facts: [[seconds(fault.from), `indices ${fault.lines.join(", ")}`, fault.what], ["", "", fault.observed ? "observed" : "not observed"], ...fault.texts.map((said) => ["", "", said]), [fault.to ? seconds(fault.to) : "", "", fault.to ? "healed" : "never healed"]] };
  },
};
function choose(lane, item) {
  if (item === chosen && lane === chosenLane) return;
  chosenLane = lane; chosen = item;
  if (item === null || item === undefined) { chosen = null; redraw(); return; }
  const { title, facts, time, key } = tells[lane.kind](item);
  const columns = make("div", undefined, "tl-cols");
  columns.append(rows(facts));
  if (D.servers) { const held = make("div"); held.append(make("b", `What the nodes held at ${seconds(time, 3)}`), rows(heldAt(time, key))); columns.append(held); }
  const logs = around(time);
  if (logs.length) { const said = make("div"); said.append(make("b", "The members' logs around this time"), rows(logs)); columns.append(said); }
  detail.replaceChildren(make("h3", title), columns);
  redraw();
}
function at(x, y0) {
  const lane = lanes.find((one) => one.y - 2 <= y0 && y0 < one.y + one.h + 2);
  if (!lane) return [null, null];
  const time = T(x), slack = (to - from) / width * 6;
  let best = null, least = Infinity;
  for (let p = Math.min(before(lane, time + slack), lane.items.length) - 1, n = 0; p >= 0 && n < 400; p--, n++) {
    const item = lane.items[p], a = lane.from(item), b = lane.to(item);
    const away = time < a ? a - time : time > b ? time - b : 0;
    const worth = away * 10 + (b - a) / 1e3;
    if (away <= slack && worth < least) { best = item; least = worth; }
    if (lane.kind === "client" && b < time - slack) break;
  }
  return [lane, best];
}
function step(by) {
  const lane = chosenLane ?? lanes.find((one) => one.kind === "client") ?? lanes[0];
  if (!lane?.items.length) return;
  let place = chosen === null || lane !== chosenLane ? before(lane, from) + (by < 0 ? -1 : 0) : lane.items.indexOf(chosen) + by;
  place = Math.min(Math.max(place, 0), lane.items.length - 1);
  const item = lane.items[place], a = lane.from(item), span = to - from;
  if (a < from || a > to) show(a - span / 3, a + span * 2 / 3);
  choose(lane, item);
}
let incidentNow = -1;
function nextIncident() {
  if (!D.incidents.length) return;
  incidentNow = (incidentNow + 1) % D.incidents.length;
  const { from: a, to: b } = D.incidents[incidentNow];
  show(a, b);
  const lane = lanes.find((one) => one.kind === "marks");
  choose(lane, lane.items.find((mark) => mark.place === incidentNow));
}

// ---- hands ------------------------------------------------------------------------------------------------------------
const held = new Map();
let pinch = 0, moved = false;
const inside = (canvas, event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
main.addEventListener("pointerdown", (event) => { held.set(event.pointerId, inside(main, event)); moved = false; main.setPointerCapture(event.pointerId); view.focus({ preventScroll: true }); });
main.addEventListener("pointermove", (event) => {
  const now = inside(main, event), then = held.get(event.pointerId);
  if (!then) { const [lane, item] = at(...now); if (lane && item !== null) choose(lane, item); return; }
  held.set(event.pointerId, now);
  if (held.size === 2) {
    const [[a], [b]] = [...held.values()], apart = Math.abs(a - b);
    if (pinch > 10 && apart > 10) zoom(pinch / apart, T((a + b) / 2));
    pinch = apart; moved = true;
  } else if (Math.abs(now[0] - then[0]) > 0) { moved = true; const by = T(then[0]) - T(now[0]); show(from + by, to + by); }
});
const letGo = (event) => { if (held.delete(event.pointerId) && !moved) { const [lane, item] = at(...inside(main, event)); if (lane) choose(lane, item); } pinch = 0; };
main.addEventListener("pointerup", letGo); main.addEventListener("pointercancel", letGo);
view.addEventListener("wheel", (event) => {
  const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
  if (!sideways && !event.ctrlKey && !event.metaKey && document.activeElement !== view) return;
  event.preventDefault();
  if (sideways) pan((event.deltaX || event.deltaY) / width); else zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 240))), T(inside(main, event)[0]));
}, { passive: false });
const onMap = (event) => { const t = (inside(map, event)[0] - GUTTER) / (width - GUTTER) * D.end, half = (to - from) / 2; show(t - half, t + half); };
map.addEventListener("pointerdown", (event) => { map.setPointerCapture(event.pointerId); onMap(event); });
map.addEventListener("pointermove", (event) => { if (event.buttons) onMap(event); });
const deeds = {
  all: () => show(0, D.end), in: () => zoom(.5), out: () => zoom(2), left: () => pan(-.25), right: () => pan(.25), incident: nextIncident,
  png() {
    const whole = document.createElement("canvas"); whole.width = main.width; whole.height = main.height + map.height;
    const own = whole.getContext("2d"); own.fillStyle = C.paper; own.fillRect(0, 0, whole.width, whole.height); own.drawImage(map, 0, 0); own.drawImage(main, 0, map.height);
    whole.toBlob((blob) => save(blob, `timeline-${(from / 1e6).toFixed(3)}-${(to / 1e6).toFixed(3)}.png`));
  },
};
root.addEventListener("click", (event) => deeds[event.target.dataset?.do]?.());
view.addEventListener("keydown", (event) => {
  const lane = (by) => { const place = lanes.indexOf(chosenLane); chosenLane = lanes[Math.min(Math.max(place + by, 0), lanes.length - 1)]; chosen = null; step(1); };
  const deed = { ArrowLeft: deeds.left, ArrowRight: deeds.right, "+": deeds.in, "=": deeds.in, "-": deeds.out, Home: deeds.all, ArrowUp: () => lane(-1), ArrowDown: () => lane(1), n: () => step(1), p: () => step(-1), i: nextIncident, Escape: () => choose(chosenLane, null) }[event.key];
  if (deed && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); deed(); }
});
function save(blob, name) {
  const link = make("a"); link.href = URL.createObjectURL(blob); link.download = name;
  document.body.append(link); link.click(); link.remove(); setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// ---- table ------------------------------------------------------------------------------------------------------------
const PAGE = 50;
let found = [], page = 0;
const cells = (i) => [String(line[i]), seconds(invoked[i], 6).slice(0, -2), who(O.client[i]), WORDS[O.f[i]], D.keys[O.key[i]], OUTCOMES[O.outcome[i]] + (O.lost[i] ? ", lost" : "") + (O.error[i] ? ", " + text(O.error[i]) : ""), text(O.read[i]), text(O.wrote[i]), token.has(i) ? String(token.get(i)) : "", O.held[i] >= 0 ? (O.hold[i] / 1e3).toFixed(1) + " ms" : ""];
function filter() {
  const wanted = $(".ops-search").value.trim().toLowerCase(), client = $(".ops-client").value, outcome = $(".ops-outcome").value, lost = $(".ops-lost").checked, within = $(".ops-view").checked;
  found = [];
  for (let i = 0; i < N; i++) {
    if ((client !== "" && O.client[i] !== +client) || (outcome !== "" && O.outcome[i] !== +outcome) || (lost && !O.lost[i]) || (within && (invoked[i] > to || ended(i) < from))) continue;
    if (!wanted || cells(i).join("\n").toLowerCase().includes(wanted)) found.push(i);
  }
  page = 0; fill();
}
function fill() {
  const pages = Math.max(1, Math.ceil(found.length / PAGE)), body = $(".ops-rows");
  body.replaceChildren(...found.slice(page * PAGE, (page + 1) * PAGE).map((i) => {
    const row = make("tr", undefined, O.lost[i] ? "failed" : undefined);
    cells(i).forEach((cell, place) => {
      const td = make("td");
      if (place === 0) { const jump = make("button", cell); jump.type = "button"; jump.title = "Show in the timeline"; jump.addEventListener("click", () => jumpTo(i)); td.append(jump); } else td.textContent = cell;
      row.append(td);
    });
    return row;
  }));
  $(".ops-count").textContent = `${found.length.toLocaleString("en")} of ${D.total.toLocaleString("en")}${N < D.total ? ` (${N.toLocaleString("en")} in this page)` : ""}; page ${page + 1} of ${pages}`;
  $(".ops-before").disabled = page === 0; $(".ops-after").disabled = page >= pages - 1;
}
function jumpTo(i) {
  const span = Math.max(2 * (ended(i) - invoked[i]), 5e4);
  show(invoked[i] - span / 4, invoked[i] + span * 3 / 4);
  const lane = lanes.find((one) => one.kind === "client" && one.place === O.client[i]);
  if (lane) choose(lane, i);
  root.scrollIntoView({ block: "start" }); view.focus({ preventScroll: true });
}
function csv() {
  // A spreadsheet takes what begins like a formula for one.
  const cell = (value) => { const safe = /^[=+\-@\t\r]/.test(value) ? "'" + value : value; return /[",\n\r]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe; };
  const head = ["index", "time_s", "client", "operation", "key", "outcome", "read", "wrote", "token", "held"];
  save(new Blob([[head, ...found.map(cells)].map((row) => row.map(cell).join(",") + "\r\n").join("")], { type: "text/csv" }), "operations.csv");
}
D.clients.forEach((name, place) => { const option = make("option", name); option.value = place; $(".ops-client").append(option); });
let typing = 0;
$(".ops-search").addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(filter, 150); });
for (const one of [".ops-client", ".ops-outcome", ".ops-lost", ".ops-view"]) $(one).addEventListener("change", filter);
$(".ops-before").addEventListener("click", () => { page--; fill(); }); $(".ops-after").addEventListener("click", () => { page++; fill(); });
$(".ops-csv").addEventListener("click", csv);
$(".ops").hidden = false;

// ---- legend, and off --------------------------------------------------------------------------------------------------
function legend() {
  const item = (fill, said, border) => { const li = make("li"), mark = make("i"); mark.style.background = fill; if (border) mark.style.border = border; li.append(mark, said); return li; };
  const parts = [item(C.muted, "thin line: operation; bar: hold, hatched after it expired by the client's own clock"), item(C.pause, "fault, and the members it hits"), item(C.ink, "◆ write, ▲ read, ? unknown outcome"), item(C.bad, "lost update, or incident; at a node's key: expired")];
  if (D.servers) parts.push(item(C["pause-wash"], `node: the slope shows the rest of the key's TTL${D.servers.every ? `; observed every ${D.servers.every} ms, hatched where the node did not answer` : ""}; grey: a client that did not acquire the lock`));
  if (O.f.some((_, i) => reads(i))) parts.push(item(C.soft, "low bars: held for reading"));
  if (D.full.length) parts.push(item(C.soft, "pale bars: operations that are only counted"));
  if (shownKeys.length < writesOf.filter((w) => w.length).length) parts.push(item(C.soft, `only the ${shownKeys.length} busiest keys of the resource have a lane`));
  $(".tl-legend").replaceChildren(...parts);
}
dark.addEventListener("change", () => { colours(); legend(); redraw(); });
window.addEventListener("hashchange", () => { if (follow()) root.scrollIntoView({ block: "start" }); });
new ResizeObserver(resize).observe(view);
colours(); legend();
$(`[data-do="incident"]`).disabled = !D.incidents.length;
resize(); filter();
// What comes after the last client's work is mostly waiting.
const worked = ofClient.reduce((last, of) => of.length ? Math.max(last, ended(of[of.length - 1])) : last, 0);
if (follow()) root.scrollIntoView({ block: "start" });
else if (worked && worked < D.end * .8) show(0, worked * 1.04, true);
document.documentElement.dataset.timeline = "ready";
})();
