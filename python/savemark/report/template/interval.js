"use strict";
// The interval section: goodput against the interval between saves, for the reader's own job.
(() => {
  const section = document.getElementById("interval");
  if (!section) return;
  // Useful share of the time, exact for exponential failures (Daly 2006); seconds throughout.
  const goodput = (tau, d, m, r) =>
    (tau + d + r) / m > 700 ? 0 : tau / (m * Math.exp(r / m) * Math.expm1((tau + d) / m));
  // Its maximum: 1 - tau/m = exp(-(tau + d)/m) has one root between 0 and m.
  const optimal = (d, m) => {
    let low = 0, high = m;
    for (let i = 0; i < 80; i++) {
      const middle = (low + high) / 2;
      if (1 - middle / m > Math.exp(-(middle + d) / m)) low = middle; else high = middle;
    }
    return (low + high) / 2;
  };
  globalThis.savemark = { goodput, optimal };
  const duration = (s) => s < 60 ? `${s.toPrecision(2)} s` : s < 3600 ? `${(s / 60).toPrecision(3)} min`
    : s < 129600 ? `${(s / 3600).toPrecision(3)} h` : `${(s / 86400).toPrecision(3)} d`;
  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  const rows = [...section.querySelectorAll("[data-save]")];
  const [size, mtbf] = ["size", "mtbf"].map((name) => document.getElementById(`interval-${name}`));
  const plot = section.querySelector("svg");
  const WIDTH = 640, HEIGHT = 250, LEFT = 52, BOTTOM = 40, TOP = 12;
  const TICKS = [1, 10, 60, 600, 3600, 21600, 86400, 604800, 2592000];
  const draw = () => {
    const bytes = size.value * 1e9, m = mtbf.value * 3600;
    if (!(bytes > 0 && m > 0)) return;
    const jobs = rows.map((row) => {
      const d = bytes / row.dataset.save, r = +section.dataset.restart + bytes / row.dataset.restore;
      const tau = optimal(d, m), best = goodput(tau, d, m, r);
      const texts = [duration(d), duration(bytes / row.dataset.restore), duration(tau), percent(best)];
      texts.forEach((text, i) => { row.cells[i + 1].textContent = text; });
      return { name: row.cells[0].textContent, colour: row.dataset.colour, d, r, tau, best };
    });
    const low = Math.log(Math.max(1, Math.min(...jobs.map((job) => job.tau)) / 40)), high = Math.log(m * 2);
    const x = (tau) => LEFT + (Math.log(tau) - low) / (high - low) * (WIDTH - LEFT - 10);
    const y = (share) => TOP + (1 - share) * (HEIGHT - BOTTOM - TOP);
    const text = (left, top, words, more = "") => `<text x="${left}" y="${top}" font-size="12" fill="var(--text)" ${more}>${words}</text>`;
    const parts = [0, .25, .5, .75, 1].map((share) =>
      `<path d="M${LEFT} ${y(share)}H${WIDTH - 10}" stroke="var(--grid)"/>${text(LEFT - 6, y(share) + 4, `${100 * share}%`, 'text-anchor="end"')}`);
    for (const tick of TICKS) if (Math.log(tick) > low && Math.log(tick) < high)
      parts.push(`<path d="M${x(tick)} ${y(0)}v5" stroke="var(--quiet)"/>${text(x(tick), y(0) + 19, duration(tick).replace(/\.0+(?= )/, ""), 'text-anchor="middle"')}`);
    parts.push(text((LEFT + WIDTH) / 2, HEIGHT - 2, "useful work between two saves (log scale)", 'text-anchor="middle"'));
    for (const job of jobs) {
      const points = Array.from({ length: 121 }, (_, i) => Math.exp(low + (high - low) * i / 120))
        .map((tau) => `${x(tau).toFixed(1)},${y(goodput(tau, job.d, m, job.r)).toFixed(1)}`);
      parts.push(`<polyline points="${points.join(" ")}" fill="none" stroke="${job.colour}" stroke-width="2"/>`);
      const said = document.createElement("i");
      said.textContent = `${job.name}: save every ${duration(job.tau)}, ${percent(job.best)} useful`;
      parts.push(`<circle cx="${x(job.tau)}" cy="${y(job.best)}" r="5" fill="${job.colour}" role="graphics-symbol" aria-label="${said.innerHTML.replaceAll('"', "&quot;")}"/>`);
    }
    plot.innerHTML = parts.join("");
  };
  for (const field of [size, mtbf]) field.addEventListener("input", draw);
  for (const hidden of section.querySelectorAll("[hidden]")) hidden.hidden = false;
  draw();
})();
