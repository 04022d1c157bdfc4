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

// Starts the browser, lets `use` open pages and look at them, and fails for what they logged, or asked of anybody but those that
// `isOurs` knows.
export async function browse(program, isOurs, use) {
  const wrong = [];
  // Root has no sandbox of its own to give to the browser.
  const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  const opened = async (address, options = {}) => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    const tab = await context.newPage();
    tab.on("request", (request) => { if (!isOurs(request.url()) && !/^(data|blob):/.test(request.url())) wrong.push(`asked for ${request.url()}`); });
    tab.on("console", (message) => { if (message.type() === "error") wrong.push(`logged ${message.text()}`); });
    tab.on("pageerror", (error) => wrong.push(`threw ${error}`));
    await tab.goto(address);
    return tab;
  };
  // Light, dark, narrow, and for those who can't see it; `ready` waits until the page is made.
  const looked = async (address, ready = () => {}) => {
    for (const options of LOOKS) {
      // The page's policy is for the page; a tool that looks at it comes by the debugger.
      for (const bypassCSP of [false, true]) {
        const tab = await opened(address, { ...options, bypassCSP });
        await ready(tab);
        const wide = await tab.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        if (wide > 0) wrong.push(`${address} is ${wide} px wider than a window of ${options.viewport?.width ?? 1280}`);
        if (bypassCSP) await hears(tab, address, wrong);
        await tab.context().close();
      }
    }
  };
  try {
    await use(opened, looked);
    assert.deepEqual(wrong, []);
  } finally {
    await browser.close();
  }
}

// What somebody would miss who only hears the page.
async function hears(tab, address, wrong) {
  await tab.evaluate(axe);
  const { violations } = await tab.evaluate(() => window.axe.run({ resultTypes: ["violations"] }));
  for (const { id, impact, help, nodes } of violations) {
    if (["serious", "critical"].includes(impact)) wrong.push(`${address}: axe: ${impact} ${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
  }
}

// As a browser has it.
export const fileAddress = (file) => pathToFileURL(resolve(file)).href;

// Plays `use` with what opens a page that is one file; `ready` waits until the page is made.
export async function play(file, program, ready, use) {
  const page = fileAddress(file);
  await browse(program, (address) => address.split("#")[0] === page, async (opened, looked) => {
    await use(async (options = {}, hash = "") => {
      const tab = await opened(page + hash, options);
      await ready(tab);
      return tab;
    });
    await looked(page, ready);
  });
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
