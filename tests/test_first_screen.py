"""The first screen of the default report in a real browser: what it holds, and how it looks."""

from __future__ import annotations

import pytest

from made_race import Race, make_race
from savemark import report

SIZES = ((1280, 800), (400, 800))
TALLEST = 5000
RACES = {
    "trusted": Race(),
    "provisional": Race(rest={"quiet": False, "disturbed_by": "process `stress` used 87 %"}),
    "no-answer": Race(repeats=3),
    "bucket": Race(targets={"s3": "s3://bucket/prefix"}, finalists=(("none", 16),)),
}
# Where each part of the first screen ends, by what it is.
PARTS = {
    "verdict word": "h1 .badge",
    "first number": ".number:nth-of-type(1) .big",
    "second number": ".number:nth-of-type(2) .big",
    "interval": ".number:nth-of-type(2) .interval",
    "ratio to the limit": ".number:nth-of-type(2) .limit",
    "chart": ".chart svg",
    "caveats": ".caveats",
}
# What is open, shown and holds nothing.
EMPTY = """[...document.querySelectorAll("details, section, main p, dl, figure")]
  .filter((e) => !e.textContent.trim() && !e.querySelector("svg")).map((e) => e.outerHTML)"""
OUTSIDE = """[...document.querySelectorAll("body *")].filter((e) =>
  !e.closest(".scroll, .drawing, #tip") && e.getBoundingClientRect().right > innerWidth + 1)
  .map((e) => e.outerHTML.slice(0, 120))"""
# Letters of the first screen, in pixels as they are shown: a drawing is scaled.
SMALLEST = """Math.min(...[...document.querySelectorAll("#verdict svg text")].map((t) =>
  t.getBoundingClientRect().height).filter((h) => h > 0))"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    place = tmp_path_factory.mktemp("first")
    for name, race in RACES.items():
        report.build(make_race(place / name, race))
    return place


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["1280", "400"])
@pytest.mark.parametrize("name", list(RACES))
def test_the_first_screen_holds_the_answer(name, size, dark, built, chromium, pictures):
    width, height = size
    chromium.complaints.clear()
    chromium.open(built / name / "report.html", width, dark, height=height)
    picture = pictures / f"first-{name}-{width}-{'dark' if dark else 'light'}.png"
    chromium.picture(picture, whole=False)
    assert picture.stat().st_size > 20_000
    for part, selector in PARTS.items():
        end = chromium.run(f'document.querySelector("{selector}")?.getBoundingClientRect().bottom')
        assert end is not None, f"{part} is missing"
        assert end <= height, f"{part} ends at {end}"
    word = chromium.run('document.querySelector("h1 .badge").textContent')
    assert word == {"no-answer": "no answer", "bucket": "trusted"}.get(name, name)
    assert chromium.complaints == []
    assert chromium.run("document.documentElement.scrollWidth") <= width
    assert chromium.run(OUTSIDE) == []
    assert chromium.run(SMALLEST) >= 9
    assert chromium.run('document.querySelectorAll("#verdict .chart svg").length') == 1


@pytest.mark.parametrize("size", SIZES, ids=["1280", "400"])
def test_the_page_is_short_and_all_is_folded_below(size, built, chromium, pictures):
    width, height = size
    chromium.open(built / "trusted" / "report.html", width, dark=False, height=height)
    assert chromium.run('document.querySelectorAll("details.part[open]").length') == 0
    assert chromium.run("document.documentElement.scrollHeight") <= TALLEST
    assert chromium.run(EMPTY) == []
    chromium.run('document.querySelectorAll("details.part").forEach((d) => { d.open = true; })')
    chromium.picture(pictures / f"all-{width}.png")
    assert chromium.run(EMPTY) == []
    assert chromium.run("document.documentElement.scrollWidth") <= width
    assert chromium.run(OUTSIDE) == []


def test_a_link_opens_what_it_points_to(built, chromium):
    chromium.open(built / "trusted" / "report.html", 1280, dark=False)
    chromium.run('document.querySelector(".caveats a").click()')
    assert chromium.run('document.getElementById("checks").open')
    chromium.run('document.querySelector("#checks .ids a").click()')
    assert chromium.run("document.querySelector(location.hash).open")


def test_nothing_of_another_study_is_on_a_default_page(built):
    page = (built / "trusted" / "report.html").read_text()
    markdown = (built / "trusted" / "report.md").read_text()
    for text in (page, markdown):
        for words in ("legacy,", "Legacy", "kB are 1024", "riginal study", "belongs to the study"):
            assert words not in text, words
    assert not list((built / "trusted" / "tables").glob("legacy*"))
    assert [table.stem for table in (built / "trusted" / "tables").iterdir()] != []


def test_a_bucket_is_never_called_a_disk_on_its_first_screen(built):
    page = (built / "bucket" / "report.html").read_text()
    first = page[page.index('id="verdict"') : page.index('id="picture"')]
    assert "the bucket" in first
    assert "disk" not in first


def test_the_markdown_has_the_order_of_the_page(built):
    text = (built / "provisional" / "report.md").read_text()
    parts = ["**provisional**", "> No compression", "* **why** the machine was not at rest",
             "* **as fast**", "caveat", "Next (about", "## The picture", "### Every setting",
             "### Ceilings", "## Screened", "## Is it true?", "## Coverage"]  # fmt: skip
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_no_limit_is_drawn_below_what_it_limits(built):
    import json

    from savemark.report.analysis import analyse
    from savemark.report.figures import all_figures

    folder = built / "trusted"
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    for line in lines:
        if line["role"] == "ceiling" and line["name"] == "write":
            for phase in line["record"]["phases"]:
                phase["elapsed_ns"] = round(phase["elapsed_ns"] * 1.07)  # measured too low
    slow = make_race(folder.parent / "slow")
    (slow / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = analyse(slow)
    figures = {figure.name: figure for figure in all_figures()}
    (panel,) = figures["answer"].draw(found)
    rows = [row for data in panel.chart.to_dict()["datasets"].values() for row in json.loads(data)]
    for limit in (row for row in rows if row["kind"] == "limit"):
        above = [row["rate"] for row in rows if "tip" not in row and row["kind"] != "limit"
                 and (row["setting"], row["row"]) == (limit["setting"], limit["row"])]  # fmt: skip
        assert max(above) <= limit["rate"]
    saves = figures["times"].draw(found)[0].chart.to_dict()
    assert "disk write" not in json.dumps(saves["datasets"])
