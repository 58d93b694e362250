"use strict";
(() => {
  // Sorting: a click on a head sorts by data-sort, numbers first descending, words ascending.
  const value = (row, i) => row.cells[i].dataset.sort ?? row.cells[i].textContent.trim();
  for (const button of document.querySelectorAll(".sortable th button")) {
    button.addEventListener("click", () => {
      const head = button.closest("th"), i = head.cellIndex;
      const body = head.closest("table").tBodies[0], rows = [...body.rows];
      const number = rows.every((row) => row.cells[i].dataset.sort !== undefined);
      const before = head.getAttribute("aria-sort");
      const up = before ? before === "descending" : !number;
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const sign = up ? 1 : -1;
      const missing = (row) => row.cells[i].dataset.sort === ""; // last, whichever way
      rows.sort((a, b) => missing(a) - missing(b) || sign * (number ? value(a, i) - value(b, i)
        : value(a, i).localeCompare(value(b, i), "en", { numeric: true })));
      body.append(...rows);
    });
  }
  // Filters.
  const filters = [...document.querySelectorAll("[data-filter]")];
  const apply = () => {
    for (const row of document.querySelectorAll(".sortable tbody tr"))
      row.hidden = filters.some((f) => f.value && row.getAttribute(`data-f${f.dataset.place}`) !== f.value);
  };
  for (const filter of filters) filter.addEventListener("change", apply);
  for (const form of document.querySelectorAll(".tools")) form.hidden = false;
  // One tooltip for marks (their accessible name) and table cells.
  const tip = document.getElementById("tip");
  const words = (target) => {
    const mark = target.closest?.("[data-tip],[role=graphics-symbol][aria-label]");
    return mark && [mark, mark.dataset.tip ?? mark.getAttribute("aria-label")];
  };
  const show = (event) => {
    const found = words(event.target);
    tip.hidden = !found;
    if (!found) return;
    tip.textContent = found[1];
    const box = found[0].getBoundingClientRect();
    const left = Math.min(Math.max(8, box.left + box.width / 2 - tip.offsetWidth / 2),
      innerWidth - tip.offsetWidth - 8);
    tip.style.left = `${left}px`;
    tip.style.top = box.top > tip.offsetHeight + 12 ? `${box.top - tip.offsetHeight - 8}px` : `${box.bottom + 8}px`;
  };
  for (const name of ["pointerover", "focusin", "click"]) document.addEventListener(name, show);
  document.addEventListener("focusout", () => { tip.hidden = true; }, true);
  // Walking to a mark scrolls to it, and its tip goes along; any other scrolling takes a tip away.
  document.addEventListener("scroll", () => {
    const walked = document.activeElement?.querySelector(".walked");
    if (walked && document.activeElement.classList.contains("drawing")) show({ target: walked });
    else tip.hidden = true;
  }, true);
  // Arrow keys walk through the marks of a drawing that has the focus, from left to right.
  const walks = new WeakMap();
  const walk = (drawing, step) => {
    const marks = [...drawing.querySelectorAll(".role-mark [role=graphics-symbol][aria-label], circle[aria-label]")]
      .map((mark) => [mark, mark.getBoundingClientRect()])
      .sort(([, a], [, b]) => a.left - b.left || a.top - b.top).map(([mark]) => mark);
    if (!marks.length) return;
    const at = walks.has(drawing) ? walks.get(drawing) + step : step > 0 ? 0 : -1;
    const place = (at + marks.length) % marks.length;
    walks.set(drawing, place);
    for (const old of drawing.querySelectorAll(".walked")) old.classList.remove("walked");
    marks[place].classList.add("walked");
    marks[place].scrollIntoView({ block: "nearest", inline: "nearest" });
    show({ target: marks[place] });
  };
  document.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !event.target.classList?.contains("drawing")) return;
    event.preventDefault();
    walk(event.target, step);
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
  // A link opens what it points to, and every fold around it; paper has no folds.
  const open = () => {
    const there = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let part = there; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    there?.scrollIntoView();
  };
  addEventListener("hashchange", open);
  if (location.hash) open();
  addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details.part")) part.open = true; });
})();
