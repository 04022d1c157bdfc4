// Opens pages of strangers in a real browser, and gives each the time to reach what it wants to:
// node strangers.mjs PAGE BROWSER CAUGHT FREE PAGE...
// PAGE and FREE reach it, since nothing holds them back: both stay open until the file CAUGHT is there. The rest are served pages.
// The listener that waits there knows whether they did. Ends with 0 once all were open.
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const [, , first, program, caught, second, ...served] = process.argv;
const began = Date.now();
const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
const free = [];
for (const page of [first, second]) {
  const tab = await (await browser.newContext()).newPage();
  await tab.goto(page);
  free.push(tab);
}
// A busy machine takes seconds to connect, and a page that is closed no longer does.
for (let waited = 0; !existsSync(caught) && waited < 120; waited++) await free[0].waitForTimeout(500);
for (const tab of free) await tab.context().close();
for (const page of served) {
  const tab = await (await browser.newContext()).newPage();
  await tab.goto(page).catch(() => {});
  await tab.waitForTimeout(1000);
  // By hand too, where there is something to follow.
  for (const link of await tab.locator("a").all()) await link.click({ timeout: 1000 }).catch(() => {});
  await tab.waitForTimeout(500);
  await tab.context().close();
}
await browser.close();
console.log(`the pages of strangers work in ${program}: ${Date.now() - began} ms`);
