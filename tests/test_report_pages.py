"""Every kind of page as a reader meets it: narrow and wide, light and dark, in a real browser."""

import json
import os
import re

import pytest

from made_grid import GPUS, SIZES, STORAGES, WORKERS, make_grid
from made_run import Made, make_run
from savemark import report
from savemark.advice import interval

CELLS = len(STORAGES) * len(GPUS) * len(SIZES) * len(WORKERS)
# Boxes of text in the verdict that lie on each other; 1 px is rounding.
OVERLAPS = """(() => {
  const texts = document.createTreeWalker(document.getElementById("verdict"), NodeFilter.SHOW_TEXT);
  const boxes = [];
  while (texts.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    boxes.push(...[...range.getClientRects()].filter((box) => box.width > 1));
  }
  return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) =>
    a.left < b.right - 1 && b.left < a.right - 1 &&
    a.top < b.bottom - 1 && b.top < a.bottom - 1)).length;
})()"""
# Everything that sticks out of the page, except inside a region that scrolls by itself.
OUTSIDE = """[...document.querySelectorAll("body *")].filter((e) =>
  !e.closest(".scroll, .drawing, #tip") && e.getBoundingClientRect().right > innerWidth + 1)
  .map((e) => e.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    folder = make_grid(tmp_path_factory.mktemp("grid"))
    before = os.times()
    report.build(folder)
    after = os.times()
    return folder, after.user + after.system - before.user - before.system


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = make_run(tmp_path_factory.mktemp("quick"))
    report.build(folder)
    return folder


def test_a_grid_of_3360_trials_is_one_small_page(grid):
    folder, cpu_seconds = grid
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert len(page.encode()) < 5_000_000
    # CPU time: 11 s on a fully loaded machine, hours if it grew with the square of the trials.
    assert cpu_seconds < 300
    for name in ("grid_first", "grid_last", "grid_diff"):
        figure = page[page.index(f'id="figure-{name}"') :]
        figure = figure[: figure.index("</figure>")]
        assert figure.count("; repeats ") == CELLS
        assert [f"({letter})" for letter in "abcdefghijklmnop"] == re.findall(
            r">(\([a-p]\))<", figure
        )
        # Every repeat is a dot, whatever the number of paths that they are drawn with.
        assert len(re.findall(r"M[-\d.]+,[-\d.]+h0(?!v)", figure)) == CELLS * 10
        assert (folder / "figures" / f"{name}.png").stat().st_size > 50_000
    assert report.summary(folder)["trials"]["finished"] == 3360 + 30


def test_the_grid_shows_each_storage_at_its_own_ceiling(grid):
    page = (grid[0] / "report.html").read_text(encoding="utf-8")
    drawn = page[page.index('id="figure-grid_last"') : page.index('id="table"')]
    assert drawn.count('stroke-dasharray="5,3"') == len(STORAGES) * len(GPUS) * len(SIZES)
    assert "transfer size 64KiB" in drawn
    assert "gpus 0,1,6,7" in drawn


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("kind", ["grid", "quick"])
def test_pages_are_clean_at_every_width(kind, width, dark, chromium, pictures, request):
    found = request.getfixturevalue(kind)
    folder = found[0] if kind == "grid" else found
    chromium.complaints.clear()
    chromium.open(folder / "report.html", width, dark)
    picture = pictures / f"{kind}-{width}-{'dark' if dark else 'light'}.png"
    chromium.picture(picture)
    assert picture.stat().st_size > 50_000
    assert chromium.complaints == []
    assert chromium.run("document.documentElement.scrollWidth") <= width
    assert chromium.run(OUTSIDE) == []
    assert chromium.run(OVERLAPS) == 0
    back = chromium.run("getComputedStyle(document.body).backgroundColor")
    assert (back == "rgb(255, 255, 255)") is not dark


def test_a_filter_hides_rows_and_a_head_sorts_them(grid, chromium):
    chromium.open(grid[0] / "report.html", 1280, dark=False)
    visible = """[...document.querySelectorAll("#table .sortable")[0].tBodies[0].rows]
      .filter((row) => !row.hidden).map((row) => row.cells[2].textContent)"""
    assert len(chromium.run(visible)) == CELLS // 3
    chromium.run("""(() => { const f = document.querySelector('[data-filter="gpus"]');
      f.value = "0,1"; f.dispatchEvent(new Event("change")); })()""")
    assert len(chromium.run(visible)) == CELLS // 3 // 4
    chromium.run("document.querySelectorAll('#table .sortable th button')[2].click()")
    found = [int(text) for text in chromium.run(visible)]
    assert found == sorted(found, reverse=True)


def test_arrow_keys_walk_through_the_marks(quick, chromium):
    chromium.open(quick / "report.html", 1280, dark=False)
    chromium.run("document.getElementById('picture').open = true")
    chromium.run("document.querySelector('#figure-times .drawing').focus()")
    tips = set()
    for _ in range(3):
        chromium("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", code="ArrowRight")
        assert chromium.run("document.getElementById('tip').hidden") is False
        tips.add(chromium.run("document.getElementById('tip').textContent"))
    assert len(tips) == 3
    # From left to right: the name of the ceiling, then the repeats of the first setting.
    assert sum("repeat" in tip for tip in tips) == 2
    assert any(tip.startswith("disk write") for tip in tips), tips


# M, d, R, exact goodput: the exact column of the planner's published check.
CHECKED = [(11124, 60, 300, 0.8758), (11124, 600, 300, 0.6877)]
CHECKED += [(1800, 30, 120, 0.7749), (1800, 120, 300, 0.5738)]


def test_the_page_computes_the_interval_as_the_planner_does(quick, chromium):
    chromium.open(quick / "report.html", 1280, dark=False)
    for m, d, r, share in CHECKED:
        tau = interval.daly(d, m)
        assert chromium.run(f"savemark.goodput({tau}, {d}, {m}, {r})") == pytest.approx(
            share, abs=5e-5
        )
        assert chromium.run(f"savemark.optimal({d}, {m})") == pytest.approx(interval.optimal(d, m))
    assert chromium.run("savemark.goodput(1e6, 60, 1000, 300)") == 0


def test_the_readers_job_changes_the_interval(quick, chromium):
    chromium.open(quick / "report.html", 1280, dark=False)
    row = "[...document.querySelectorAll('#interval tbody tr')[0].cells].map((c) => c.textContent)"
    first = chromium.run(row)
    html = (quick / "report.html").read_text(encoding="utf-8")
    for text in first[1:]:  # the script writes what the page already said
        assert f"<td>{text}</td>" in html
    chromium.run("""(() => { const f = document.getElementById("interval-size");
      f.value = 1000; f.dispatchEvent(new Event("input")); })()""")
    second = chromium.run(row)
    save = float(chromium.run("document.querySelector('[data-save]').dataset.save"))
    restore = float(chromium.run("document.querySelector('[data-restore]').dataset.restore"))
    d = 1e12 / save
    tau = interval.optimal(d, 12 * 3600)
    share = interval.goodput(tau, d, 12 * 3600, 300 + 1e12 / restore)
    assert second[4] == f"{share * 100:.1f} %"
    assert second[4] != first[4]
    chromium.run("""(() => { const f = document.getElementById("interval-mtbf");
      f.value = ""; f.dispatchEvent(new Event("input")); })()""")
    assert chromium.run(row) == second  # half a number is no number: nothing jumps


def test_no_interval_without_save_and_restore(grid):
    assert 'id="interval"' not in (grid[0] / "report.html").read_text(encoding="utf-8")


def test_figures_that_do_not_apply_are_quiet(grid, quick):
    page = (quick / "report.html").read_text(encoding="utf-8")
    assert 'id="figure-grid_last"' not in page
    assert "Until the last worker ended: fewer than three factors varied" in page
    markdown = (grid[0] / "report.md").read_text(encoding="utf-8")
    assert "figures/grid_last.svg" in markdown
    assert "figures/times.svg" not in markdown


def test_one_factor_and_one_setting(tmp_path):
    for name, made in (
        ("one", Made(codecs=("none",), streams=(2, 4), repeats=2)),
        ("single", Made(codecs=("none",), streams=(4,), repeats=1)),
    ):
        page = report.build(make_run(tmp_path / name, made)).read_text(encoding="utf-8")
        assert 'id="figure-times"' in page
        assert "fewer than two factors varied" in page


def test_factors_are_found_in_the_records_not_in_the_code(tmp_path):
    folder = make_run(tmp_path, Made(codecs=("none", "zstd"), streams=(0, 4), repeats=2))
    for name in ("run.json", "records.jsonl"):
        text = (folder / name).read_text()
        (folder / name).write_text(text.replace('"streams"', '"queue_depth"'))
    page = report.build(folder).read_text(encoding="utf-8")
    assert "queue_depth</" not in page[page.index("<thead>") : page.index("</thead>")]
    assert 'data-filter="queue_depth"' in page
    assert '<th scope="col" class="num"><button type="button">queue depth</button>' in page
    cells = report.summary(folder)["cells"]
    assert {cell["queue_depth"] for cell in cells} == {"0", "4"}
    json.dumps(cells)
