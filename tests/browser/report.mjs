// Uses a report as a reader would, in a real browser: node report.mjs report.html. Ends with 0 if all is well; says what is not.
import { readFileSync } from "node:fs";
import assert from "node:assert/strict";
import { copies, play } from "./kit.mjs";

const [, , report, program] = process.argv;
const ready = (tab) => tab.waitForFunction(() => document.documentElement.dataset.timeline === "ready");
const range = async (tab) => {
  // Drawn with the next frame.
  await tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const [, from, to] = /^([\d.]+) s to ([\d.]+) s/.exec(await tab.locator(".tl-range").textContent());
  return [Number(from), Number(to)];
};
const span = async (tab) => { const [from, to] = await range(tab); return to - from; };

await play(report, program, ready, async (opened) => {
  // By mouse: zoom, pan, minimap, hover.
  const tab = await opened();
  await tab.locator("[data-do=all]").click();
  const whole = await span(tab);
  await tab.locator("#timeline").evaluate((section) => section.scrollIntoView());
  const box = await tab.locator(".tl-main").boundingBox();
  await tab.mouse.click(box.x + 500, box.y + 60);
  await tab.mouse.move(box.x + 600, box.y + 60);
  await tab.mouse.wheel(0, -400);
  const near = await span(tab);
  assert(near < whole / 2, `the wheel zooms: ${whole} to ${near}`);
  const [before] = await range(tab);
  await tab.mouse.down(); await tab.mouse.move(box.x + 400, box.y + 60, { steps: 4 }); await tab.mouse.up();
  const [after] = await range(tab);
  assert(after > before, "dragging to the left goes to later times");
  const map = await tab.locator(".tl-map").boundingBox();
  await tab.mouse.click(map.x + 100, map.y + 20);
  assert((await range(tab))[0] < after, "the minimap goes where it is clicked");
  await tab.mouse.move(box.x + 640, box.y + 75, { steps: 3 });

  // An incident's link shows it, and the address can be shared.
  await tab.locator('#incident-1 a[href^="#t="]').click();
  const incident = await range(tab);
  assert(incident[1] - incident[0] < whole / 2 && /^#t=/.test(await tab.evaluate(() => location.hash)));
  const shared = await opened({}, `#t=${incident[0]}-${incident[1]}`);
  const again = await range(shared);
  assert(Math.abs(again[0] - incident[0]) < .002 && Math.abs(again[1] - incident[1]) < .002, `${again} for ${incident}`);
  assert((await tab.locator("#incident-1 .remedies pre").first().textContent()).startsWith("redjepsen run "));

  // On a phone a table rolls sideways: its words are not broken into letters.
  const narrow = await opened({ viewport: { width: 390, height: 844 } });
  const heights = await narrow.locator("#faults th").evaluateAll((heads) => heads.map((head) => head.getBoundingClientRect().height));
  assert(heights.length > 5 && heights.every((height) => height > 0 && height < 40), `${heights}`);

  // By keys only.
  const keys = await opened();
  await keys.locator(".tl-view").focus();
  for (const key of ["+", "+", "ArrowRight"]) await keys.keyboard.press(key);
  const keyed = await range(keys);
  assert(Math.abs(keyed[1] - keyed[0] - whole / 4) < .01 && keyed[0] > 0, `${keyed}`);
  await keys.keyboard.press("-");
  assert(Math.abs((await span(keys)) - whole / 2) < .01);
  await keys.keyboard.press("Home");
  assert.equal(await span(keys), whole);
  await keys.keyboard.press("i");
  assert((await keys.locator(".tl-detail h3").textContent()).startsWith("Incident 1"));
  await keys.keyboard.press("ArrowDown"); await keys.keyboard.press("n");
  const told = await keys.locator(".tl-detail").textContent();
  assert(/^c0, /.test(told) && told.includes("index ") && told.includes("What the nodes held"), told);

  // By fingers: two that part zoom in, one that moves sideways goes along.
  const fingers = await opened({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await fingers.locator("#timeline .tl-main").evaluate((canvas) => canvas.scrollIntoView({ block: "center" }));
  const screen = await fingers.locator(".tl-main").boundingBox();
  const debug = await fingers.context().newCDPSession(fingers);
  const touch = async (type, xs) => {
    const touchPoints = xs.map((x, id) => ({ x: screen.x + x, y: screen.y + 80, id }));
    await debug.send("Input.dispatchTouchEvent", { type, touchPoints });
  };
  const swipe = async (froms, tos) => {
    await touch("touchStart", froms);
    for (let step = 1; step <= 8; step++) await touch("touchMove", froms.map((from, finger) => from + (tos[finger] - from) * step / 8));
    await touch("touchEnd", []);
  };
  const wide = await span(fingers);
  await swipe([180, 220], [100, 300]);
  const pinched = await range(fingers);
  assert(pinched[1] - pinched[0] < wide / 2, `two fingers zoom: ${wide} to ${pinched[1] - pinched[0]}`);
  await swipe([250], [150]);
  assert((await range(fingers))[0] > pinched[0], "one finger to the left goes to later times");

  // The table.
  const rows = tab.locator(".ops-rows tr");
  const number = async () => Number(/^[\d,]+/.exec(await tab.locator(".ops-count").textContent())[0].replace(",", ""));
  const all = await number();
  assert(all > 20 && (await rows.count()) > 20);
  await tab.locator(".ops-lost").check();
  const lost = await number();
  assert(lost > 0 && lost < all / 2, `${lost} of ${all}`);
  const value = (await rows.first().locator("td").nth(7).textContent()).trim();
  await tab.locator(".ops-lost").uncheck();
  await tab.locator(".ops-search").fill(value);
  await tab.waitForFunction((all) => !document.querySelector(".ops-count").textContent.startsWith(`${all} of`), all);
  assert((await number()) < all);
  const [download] = await Promise.all([tab.waitForEvent("download"), tab.locator(".ops-csv").click()]);
  const csv = readFileSync(await download.path(), "utf8").trim().split("\r\n");
  assert.equal(csv[0], "index,time_s,client,operation,key,outcome,read,wrote,token,held");
  assert.equal(csv.length - 1, await number());
  await rows.first().locator("button").click();
  assert((await span(tab)) < whole / 2, "a row leads to its place on the axis");

  // Its commands are copied, also where the clipboard is closed to scripts, and a drawing fits a phone until it is wanted larger.
  await copies(tab, tab.locator("#repeat .command").first());
  const phone = await opened({ viewport: { width: 390, height: 844 }, hasTouch: true });
  const drawing = phone.locator("#incident-1 svg.drawing");
  const width = async () => (await drawing.boundingBox()).width;
  assert((await width()) <= 390);
  await phone.locator("#incident-1 .larger").tap();
  assert((await width()) >= 800);
  await phone.evaluate(() => { navigator.clipboard.writeText = () => Promise.reject(new Error("closed")); });
  // Where the page names the defect, what would have prevented the incident is folded.
  const folded = phone.locator("#incident-1 details summary").first();
  if (!(await phone.locator("#incident-1 .copy").first().isVisible())) await folded.tap();
  await phone.locator("#incident-1 .copy").first().tap();
  await phone.waitForFunction(() => ["Copied", "Selected"].includes(document.querySelector("#incident-1 .copy").textContent));
  assert.equal(await phone.evaluate(() => getSelection().toString().trim()), await phone.locator("#incident-1 .command pre").first().textContent());
});
console.log("the report works in", program);
