// A page in a real browser: opened as a reader would, with a look at what it asks for and logs, and at whether those who can't see
// it can use it.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const LOOKS = [{}, { colorScheme: "dark" }, { viewport: { width: 390, height: 844 }, hasTouch: true }, { viewport: { width: 390, height: 844 }, colorScheme: "dark" }];

// Plays `use` with what opens the page; `ready` waits until the page is made.
export async function play(file, program, ready, use) {
  const page = pathToFileURL(resolve(file)).href, wrong = [];
  // Root has no sandbox of its own to give to the browser.
  const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  const opened = async (options = {}, hash = "") => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    const tab = await context.newPage();
    tab.on("request", (request) => { if (request.url().split("#")[0] !== page && !/^(data|blob):/.test(request.url())) wrong.push(`asked for ${request.url()}`); });
    tab.on("console", (message) => { if (message.type() === "error") wrong.push(`logged ${message.text()}`); });
    tab.on("pageerror", (error) => wrong.push(`threw ${error}`));
    await tab.goto(page + hash);
    await ready(tab);
    return tab;
  };
  try {
    await use(opened);
    for (const options of LOOKS) {
      const seen = await opened(options);
      assert(await seen.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), "nothing is wider than the window");
      // The page's policy is for the page; a tool that looks at it comes by the debugger.
      const looked = await opened({ ...options, bypassCSP: true });
      await looked.evaluate(axe);
      const { violations } = await looked.evaluate(() => window.axe.run({ resultTypes: ["violations"] }));
      for (const { id, impact, help, nodes } of violations) {
        if (["serious", "critical"].includes(impact)) wrong.push(`axe: ${impact} ${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
      }
      await seen.context().close();
      await looked.context().close();
    }
    assert.deepEqual(wrong, []);
  } finally {
    await browser.close();
  }
}

// The button beside a command copies it, as it stands there.
export async function copies(tab, command) {
  await tab.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const text = await command.locator("pre").textContent();
  await command.locator("button").focus();
  await tab.keyboard.press("Enter");
  await tab.waitForFunction(() => [...document.querySelectorAll(".copy")].some((button) => button.textContent === "Copied"));
  assert.equal(await tab.evaluate(() => navigator.clipboard.readText()), text);
  assert(text.startsWith("redjepsen "), text);
}
