// Uses a suite's matrix as a reader would, in a real browser: node matrix.mjs matrix.html. Ends with 0 if all is well; says what is not.
import assert from "node:assert/strict";
import { copies, play } from "./kit.mjs";

const [, , matrix, program] = process.argv;
await play(matrix, program, (tab) => tab.waitForSelector(".filter"), async (opened) => {
  const tab = await opened();
  await copies(tab, tab.locator(".command").first());

  // What differs comes first, and its links lead to where it is told.
  assert.match(await tab.locator(".grid:has(.surprise) tbody tr").first().innerText(), /UNEXPECTED/);
  await tab.locator(".grid .surprise .shown").first().click();
  const cell = await tab.evaluate(() => location.hash);
  assert.match(await tab.locator(cell).innerText(), /UNEXPECTED/);
  assert.match(await tab.locator(".grid .run").first().getAttribute("href"), /^runs\/.*\/report\.html$/);

  // Filtered by a name and by what came out; rows and columns of which nothing is left are folded.
  const rows = tab.locator(".compare tbody tr:visible"), all = await rows.count();
  await tab.locator(".filter input").fill("redlock-guarded");
  const named = await rows.count();
  assert(named > 0 && named < all, `${named} of ${all}`);
  assert.equal(await tab.locator(".grid thead th:visible").count(), await tab.locator(".grid:visible").count());
  await tab.locator(".filter input").fill("");
  await tab.locator(".filter select").selectOption("differs");
  assert.equal(await rows.count(), await tab.locator(".alarm").count());
  await tab.locator(".filter select").selectOption("");

  // Sorted by keys alone, and back.
  const lost = async () => (await tab.locator(".compare td:nth-child(4)").allTextContents()).map((text) => Number(/^[\d,]*/.exec(text.trim())[0].replaceAll(",", "") || -1));
  const head = tab.locator(".compare thead th:nth-child(4) button");
  await head.focus();
  await tab.keyboard.press("Enter"); await tab.keyboard.press("Enter");
  const sorted = await lost();
  assert(sorted[0] > 0 && sorted.every((value, place) => !place || value <= sorted[place - 1]), `${sorted}`);
  assert.equal(await tab.locator(".compare thead th:nth-child(4)").getAttribute("aria-sort"), "descending");

  // Heads stay while one scrolls through a table.
  const box = tab.locator(".all .wide");
  await box.evaluate((wide) => { wide.style.maxHeight = "200px"; wide.scrollTop = 120; });
  const [top, at] = [await box.boundingBox(), await tab.locator(".compare thead th").first().boundingBox()];
  assert(Math.abs(top.y - at.y) < 2, `${top.y} and ${at.y}`);

  // On a phone: a list instead of the tables, and the numbers folded until somebody comes for them.
  const phone = { viewport: { width: 390, height: 844 }, hasTouch: true };
  const small = await opened(phone);
  assert.equal(await small.locator(".grid:visible").count(), 0);
  assert(await small.locator(".lock:visible").count() > 0);
  assert.equal(await small.locator(".compare tbody tr:visible").count(), 0);
  await small.locator(".all summary").click();
  assert.equal(await small.locator(".compare tbody tr:visible").count(), all);
  assert((await opened(phone, cell)).locator(`${cell}:visible`).count());
});
console.log("the matrix works in", program);
