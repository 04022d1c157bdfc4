// Uses the pages over a store as a reader would, in a real browser: node pages.mjs URL BROWSER PAGE...: the address that
// `redjepsen serve` said, and pages that stand alone. Ends with 0 if all is well; says what is not.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const [, , served, program, ...alone] = process.argv;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
// Root has no sandbox of its own to give to the browser.
const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
const wrong = [];
async function opened(address, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const tab = await context.newPage();
  tab.on("request", (request) => { if (![served, "data:", "blob:", ...alone.map((page) => pathToFileURL(resolve(page)).href)].some((from) => request.url().startsWith(from))) wrong.push(`asked for ${request.url()}`); });
  tab.on("console", (message) => { if (message.type() === "error") wrong.push(`logged ${message.text()}`); });
  tab.on("pageerror", (error) => wrong.push(`threw ${error}`));
  await tab.goto(address);
  return tab;
}
/** Narrow and dark, too; and for those who can't see it. */
async function looked(address) {
  for (const options of [{}, { colorScheme: "dark" }, { viewport: { width: 390, height: 844 }, hasTouch: true }]) {
    // The page's policy is for the page; a tool that looks at it comes by the debugger.
    const tab = await opened(address, { ...options, bypassCSP: true });
    const wide = await tab.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    if (wide > 0) wrong.push(`${address} is ${wide} px wider than a window of ${options.viewport?.width ?? 1280}`);
    await tab.evaluate(axe);
    const { violations } = await tab.evaluate(() => window.axe.run({ resultTypes: ["violations"] }));
    for (const { id, impact, help, nodes } of violations) {
      if (["serious", "critical"].includes(impact)) wrong.push(`${address}: axe: ${impact} ${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
    }
    await tab.context().close();
  }
}

try {
  // Search, filter and sort by mouse; what is asked stands in the address.
  const tab = await opened(served);
  const rows = tab.locator("#runs tbody tr");
  const all = await rows.count();
  assert(all >= 3, `${all} runs`);
  await tab.locator("#search").fill("guarded");
  const guarded = await rows.count();
  assert(guarded > 0 && guarded < all, `${guarded} of ${all} are guarded`);
  assert((await rows.allTextContents()).every((text) => text.includes("redlock-guarded")));
  const shared = await opened(tab.url());
  assert.equal(await shared.locator("#runs tbody tr").count(), guarded, "the address leads to the same runs");
  await tab.locator("#search").fill("");
  await tab.locator("#verdict").selectOption("invalid");
  const invalid = await rows.count();
  assert(invalid > 0 && invalid < all, `${invalid} of ${all} are invalid`);
  await tab.locator("#verdict").selectOption("");
  await tab.locator("#search").fill("there is no such run");
  assert((await tab.locator("#more").textContent()).includes("No run is like that"));
  await tab.locator("#search").fill("");

  // By keys alone: to the head of a column, which sorts, and to a run, which opens.
  const head = tab.locator("#runs th").first();
  const key = head.locator("button");
  await tab.locator("#kind").focus();
  // The table comes first, since a narrow window scrolls it sideways.
  await tab.keyboard.press("Tab");
  await tab.keyboard.press("Tab");
  assert(await key.evaluate((button) => button === document.activeElement), "the first column's head is next");
  await tab.keyboard.press("Enter");
  const first = await rows.allTextContents();
  await tab.keyboard.press("Enter");
  const second = await rows.allTextContents();
  assert(["ascending", "descending"].includes(await head.getAttribute("aria-sort")) && first[0] !== second[0], "it sorts both ways");
  await rows.first().locator("a").focus();
  await tab.keyboard.press("Enter");
  await tab.waitForURL(/\/runs\//);
  const run = tab.url();
  assert((await tab.locator("body").textContent()).includes("redjepsen run --"), "a run says how to make it again");
  await tab.goto(served);
  await tab.locator("#suites a").first().click();
  await tab.waitForURL(/\/suites\//);
  for (const address of [served, run, tab.url(), ...alone.map((page) => pathToFileURL(resolve(page)).href)]) await looked(address);
  assert.deepEqual(wrong, []);
} finally {
  await browser.close();
}
console.log("the pages work in", program);
