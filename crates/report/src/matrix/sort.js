// Sorting and filtering of this page. Without it the page says the same.
(() => {
  const numbers = document.querySelector(".compare");
  if (!numbers) return;
  const body = numbers.tBodies[0];
  const rows = [...body.rows];
  const units = { "µs": 1e-3, ms: 1, s: 1e3, min: 6e4 };
  const value = (cell) => {
    const text = cell.innerText.trim().replace(/,/g, "");
    const found = text.match(/^([\d.]+)\s*(µs|ms|s|min)?\b/);
    return found ? Number(found[1]) * (units[found[2]] || 1) : text === "–" ? -1 : text;
  };
  const compare = (one, other) =>
    typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other));
  const heads = [...numbers.tHead.rows[0].cells];
  const sort = (column, down) => {
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
    rows.sort((one, other) => compare(value(one.cells[column]), value(other.cells[column])) * (down ? -1 : 1));
    body.append(...rows);
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.onclick = () => sort(column, head.getAttribute("aria-sort") === "ascending");
  });

  // A phone has no room for heads, nor for all numbers at once. A link to one cell opens it.
  const all = document.querySelector(".all");
  if (matchMedia("(max-width: 720px)").matches && !location.hash.startsWith("#cell-")) all.open = false;
  addEventListener("hashchange", () => { if (location.hash.startsWith("#cell-")) all.open = true; });
  const order = Object.assign(document.createElement("select"), { ariaLabel: "Sort the numbers by" });
  order.className = "narrow-only";
  for (const head of heads) order.add(new Option("sorted by " + head.textContent));
  order.onchange = () => sort(order.selectedIndex, order.selectedIndex > 1);
  numbers.parentElement.before(order);

  const bar = document.createElement("form");
  bar.className = "filter";
  const text = Object.assign(document.createElement("input"), { type: "search", placeholder: "lock or nemesis", ariaLabel: "Show only cells whose name contains this text" });
  const kind = document.createElement("select");
  kind.ariaLabel = "Show only cells with this result";
  for (const [name, of] of [["all cells", ""], ["not as expected", "differs"], ["violation", "broken"], ["no violation", "held"], ["unknown", "unproven"]])
    kind.add(new Option(name, of));
  const said = document.createElement("span");
  bar.append(text, kind, said);
  document.querySelector("#matrix h2").after(bar);
  const differs = (cell) => cell.classList.contains("surprise") || cell.classList.contains("unproven");
  const fits = (cell) => {
    const wanted = kind.value;
    const is = wanted === "" || (wanted === "differs" ? differs(cell) : cell.classList.contains(wanted) || cell.classList.contains("of-" + wanted));
    return is && cell.dataset.name.toLowerCase().includes(text.value.trim().toLowerCase());
  };
  const filter = () => {
    for (const row of rows) row.hidden = !fits(row);
    for (const slot of document.querySelectorAll(".slot")) slot.hidden = !fits(slot);
    // Rows, columns and locks of which nothing is left.
    const left = (of) => [...of.querySelectorAll(".slot")].some((slot) => !slot.hidden);
    for (const lock of document.querySelectorAll(".lock")) lock.hidden = !left(lock);
    for (const grid of document.querySelectorAll(".grid")) {
      for (const row of grid.tBodies[0].rows) row.hidden = !left(row);
      [...grid.tHead.rows[0].cells].forEach((head, column) => {
        if (column === 0) return;
        const cells = [...grid.tBodies[0].rows].map((row) => row.cells[column]);
        const hidden = !cells.some(left);
        for (const cell of [head, ...cells]) cell.hidden = hidden;
      });
    }
    const shown = rows.filter((row) => !row.hidden).length;
    said.textContent = shown === rows.length ? "" : `${shown} of ${rows.length} cells`;
  };
  bar.onsubmit = (event) => event.preventDefault();
  text.oninput = kind.onchange = filter;
})();
