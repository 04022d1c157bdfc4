(() => {
  "use strict";
  const by = (id) => document.getElementById(id);
  const make = (tag, text, name) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  };
  for (const tools of document.querySelectorAll(".tools")) tools.hidden = false;

  // All runs, searched, filtered and sorted. What is asked stands in the address, so that it can be sent to somebody.
  const section = by("runs");
  if (section && by("data")) {
    const [HREF, WORD, CLASS, WORKLOAD, NEMESIS, SEED, LOST, SHARE, OVERLAPS, TOOK, TOOK_S, ON, WHEN, TIME, SIM] = Array(15).keys();
    const rows = JSON.parse(by("data").textContent);
    for (const row of rows) row.text = [row[WORD], row[WORKLOAD], row[NEMESIS], "seed " + row[SEED], row[ON], row[WHEN]].join(" ").toLowerCase();
    const body = section.querySelector("tbody"), heads = [...section.querySelectorAll("th")], step = Number(section.dataset.shown);
    const columns = [WORD, WORKLOAD, SHARE, OVERLAPS, TOOK_S, ON, TIME];
    const number = (text) => Number(String(text).replaceAll(",", "")) || 0;
    const value = (row, column) => column === OVERLAPS ? number(row[column]) : column === WORKLOAD ? row[WORKLOAD] + " " + row[NEMESIS] : row[column];
    const asked = new URLSearchParams(location.hash.slice(1));
    let sort = Math.min(Math.max(Number(asked.get("sort") ?? 6) | 0, 0), 6), down = asked.get("up") === null, shown = step;
    by("search").value = asked.get("q") ?? "";
    by("verdict").value = asked.get("verdict") ?? "";
    by("kind").value = asked.get("of") ?? "";

    const line = (row) => {
      const made = make("tr"), verdict = make("td"), name = make("td"), link = make("a", row[WORKLOAD] + (row[NEMESIS] ? " under " + row[NEMESIS] : ""));
      verdict.append(make("b", row[WORD], "mark " + row[CLASS]));
      if (row[SIM]) verdict.append(" ", make("span", "simulated", "sim"));
      link.href = row[HREF];
      name.append(link);
      if (row[SEED] !== null) name.append(" ", make("span", "seed " + row[SEED], "seed"));
      made.append(verdict, name, make("td", row[LOST], "n"), make("td", row[OVERLAPS], "n"), make("td", row[TOOK], "n"), make("td", row[ON], "on"), make("td", row[WHEN], "n"));
      return made;
    };
    const show = () => {
      const words = by("search").value.toLowerCase().split(/\s+/).filter(Boolean), verdict = by("verdict").value, kind = by("kind").value;
      const found = rows.filter((row) => (!verdict || row[WORD] === verdict) && (!kind || (kind === "s") === !!row[SIM]) && words.every((word) => row.text.includes(word)));
      const column = columns[sort];
      found.sort((one, other) => {
        const [a, b] = [value(one, column), value(other, column)];
        return (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1);
      });
      body.replaceChildren(...found.slice(0, shown).map(line));
      by("found").textContent = found.length === rows.length ? rows.length.toLocaleString("en") : found.length.toLocaleString("en") + " of " + rows.length.toLocaleString("en");
      const more = by("more");
      if (rows.length) {
        more.replaceChildren(found.length === 0 ? "No run matches." : "");
        if (found.length > shown) {
          const button = make("button", "Show " + Math.min(step, found.length - shown) + " more");
          button.onclick = () => { shown += step; show(); };
          more.replaceChildren(button);
        }
      }
      heads.forEach((head, place) => head.setAttribute("aria-sort", place === sort ? (down ? "descending" : "ascending") : "none"));
      const hash = new URLSearchParams();
      if (by("search").value) hash.set("q", by("search").value);
      if (verdict) hash.set("verdict", verdict);
      if (kind) hash.set("of", kind);
      if (sort !== 6) hash.set("sort", sort);
      if (!down) hash.set("up", "");
      try { history.replaceState(null, "", hash.size ? "#" + hash : location.pathname + location.search); } catch { /* a file has no history */ }
    };
    heads.forEach((head, place) => {
      const button = make("button", head.textContent, "sort");
      head.replaceChildren(button);
      button.onclick = () => { [sort, down, shown] = [place, place === sort ? !down : place > 1, step]; show(); };
    });
    for (const id of ["search", "verdict", "kind"]) by(id).addEventListener("input", () => { shown = step; show(); });
    show();
  }

  // The cells of a suite.
  if (by("cell-search")) {
    const cells = [...document.querySelectorAll("table.cells tbody tr")];
    const show = () => {
      const words = by("cell-search").value.toLowerCase().split(/\s+/).filter(Boolean), changed = by("changed").checked;
      for (const cell of cells) {
        const text = cell.cells[0].textContent.toLowerCase();
        cell.hidden = (changed && cell.dataset.changed === "0") || !words.every((word) => text.includes(word));
      }
    };
    for (const id of ["cell-search", "changed"]) by(id).addEventListener("input", show);
  }

  // What goes on is looked at again; once a run is over, the whole page.
  const live = () => by("live");
  if (live() && "look" in live().dataset) {
    const look = async () => {
      const before = live().dataset.going;
      try {
        const answer = await fetch(live().dataset.look || location.pathname, { cache: "no-store" });
        if (answer.ok) {
          const now = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("live");
          if (!now || Number(now.dataset.going) < Number(before)) return location.reload();
          live().replaceWith(document.adoptNode(now));
        }
      } catch { /* nobody answers for now */ }
      setTimeout(look, live().dataset.going === "0" ? 5000 : 1000);
    };
    setTimeout(look, 1000);
  }
})();
