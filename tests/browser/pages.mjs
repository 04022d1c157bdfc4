// Uses the pages over a store as a reader would, in a real browser: node pages.mjs URL BROWSER PAGE...: the address that
// `redjepsen serve` said, and pages that stand alone. Ends with 0 if all is well; says what is not.
import assert from "node:assert/strict";
import { browse, fileAddress } from "./kit.mjs";

const [, , served, program, ...files] = process.argv;
const began = Date.now();
const alone = files.map(fileAddress);
const isOurs = (address) => [served, ...alone].some((ours) => address.startsWith(ours));
await browse(program, isOurs, async (opened, looked) => {
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
  assert((await tab.locator("#more").textContent()).includes("No run matches"));
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
  // Its report, which may be anybody's, runs our script in a sandbox of its own.
  await tab.locator("a.button").click();
  await tab.waitForURL(/\/files\/.*report\.html/);
  await tab.waitForFunction(() => document.documentElement.dataset.timeline === "ready");
  const [download] = await Promise.all([tab.waitForEvent("download"), tab.locator(".ops-csv").click()]);
  assert((await download.suggestedFilename()).endsWith(".csv"), "the operations can be saved");
  await tab.goto(served);
  await tab.locator("#suites a").first().click();
  await tab.waitForURL(/\/suites\//);
  for (const address of [served, run, tab.url(), ...alone]) await looked(address);
});
console.log(`the pages over a store work in ${program}: ${Date.now() - began} ms`);
