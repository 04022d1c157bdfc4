// Opens pages of strangers in a real browser, and gives each time to reach what it wants to: node strangers.mjs FIRST BROWSER PAGE...
// Who waits there knows whether it did. Ends with 0 once all were open.
import { chromium } from "playwright-core";

const [, , first, program, ...others] = process.argv;
const began = Date.now();
const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
for (const page of [first, ...others]) {
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
