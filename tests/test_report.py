"""The report of a made run: complete, small, offline, honest about what is missing."""

import io
import json
import os
import re
import shutil
import subprocess

import altair as alt
import polars as pl
import pytest
from rich.console import Console

from made_run import Made, make_run
from savemark import report
from savemark.report.analysis import analyse
from savemark.report.figures import all_figures
from savemark.report.figures.stages import _paint
from savemark.report.marks import MOST_DOTS, few, ticks
from savemark.report.pixels import Pixels
from savemark.stats.ties import FLIPS

SMALL = {"codecs": ("none", "lz4", "zstd"), "streams": (0, 2, 4), "repeats": 3}
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = make_run(tmp_path_factory.mktemp("quick"))
    report.build(folder)
    return folder


@pytest.fixture(scope="module")
def page(quick):
    return (quick / "report.html").read_text(encoding="utf-8")


def screen(folder, width=100):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    report.show(folder, console)
    return console.file.getvalue()


def built(folder, made):
    path = report.build(make_run(folder, made))
    return path.read_text(encoding="utf-8"), report.summary(folder), screen(folder)


def test_everything_is_written(quick):
    names = {path.relative_to(quick).as_posix() for path in quick.rglob("*") if path.is_file()}
    assert {"report.html", "report.md", "tables/settings.csv", "tables/phases.csv"} <= names
    for figure in ("times", "stages", "threads", "latency", "timeline", "order"):
        assert {f"figures/{figure}.svg", f"figures/{figure}.png"} <= names


def test_page_is_small_and_loads_nothing(quick, page):
    assert (quick / "report.html").stat().st_size < 3_000_000
    loads = re.findall(r"""(?:src|href)=["']([^"']+)|url\(([^)]+)\)|@import""", page)
    for found in (a or b for a, b in loads):
        assert not re.match(r"(https?:)?//", found), found
    assert "<script src" not in page


def test_every_repeat_is_a_mark(quick, page):
    figure = page[page.index('id="figure-times"') :]
    figure = figure[: figure.index("</figure>")]
    assert figure.count('aria-roledescription="point"') == 24 * 5 * 2
    assert "zstd × 8, repeat 5: save" in figure
    assert "disk write 2.04 GB/s" in figure


def test_colours_follow_the_page_in_the_dark(page):
    drawn = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    assert "var(--codec-zstd)" in drawn
    assert "var(--text)" in drawn
    assert "prefers-color-scheme:dark" in page
    assert set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6})"', drawn)) == set()


def test_verdict_names_best_and_ties_without_claiming_a_winner(quick, page):
    data = report.summary(quick)
    best = data["targets"][0]["best"]["total"]
    assert (best["setting"], best["tied"]) == ("zstd × 8", ["zstd × 4"])
    assert (data["state"], data["targets"][0]["answers"][0]["advised"]) == ("no answer", None)
    assert data["verdict"].startswith("No advice: 5 repeats of zstd × 8, and 6 are needed")
    assert data["verdict"].split(".")[0] in page
    assert {note["id"] for note in data["notes"]} == {"HC-13", "HC-17", "HC-18"}
    assert (data["valid"], data["validity"]) == (True, "valid with 3 notes")
    json.dumps(data)


def test_cells_carry_their_numbers(quick):
    cells = {cell["setting"]: cell for cell in report.summary(quick)["cells"]}
    assert len(cells) == 24
    none = cells["none × 4"]
    assert none["save_limit"] == "disk write"
    assert 0.9 < none["save_of_limit"] < 1
    assert none["save_user_bytes_per_s"] == pytest.approx(2**31 / none["save_s_median"])
    assert cells["gzip × 0"]["save_limit"] == "codec gzip × 1 core"
    assert cells["zstd × 4"]["ratio"] == pytest.approx(1.28, abs=0.001)


@pytest.mark.parametrize("width", [100, 80])
def test_terminal_fits(quick, width):
    text = screen(quick, width)
    # A command is one line, for it is copied.
    assert max(len(x) for x in text.splitlines() if "savemark run" not in x) <= width
    assert "◀ best" in text
    assert "… all 24 in the report" in text
    assert "ceilings" in text
    assert "…" not in text.split("… all 24")[0]  # nothing was cut off
    assert "no answer" in text
    assert ("[range n=5]" in text) == (width == 100)


def test_six_repeats_are_tested(tmp_path):
    html, data, _ = built(tmp_path, Made(repeats=6))
    assert data["targets"][0]["best"]["total"]["rule"] == FLIPS
    assert "HC-17" not in {note["id"] for note in data["notes"]}
    assert "[95 %]" in html


def test_failed_cell(tmp_path):
    html, data, text = built(tmp_path, Made(**SMALL, fail=("zstd", 4)))
    assert data["trials"]["failed"] == 3
    assert "No space left" in html
    assert "HC-20" in text
    assert "3 failed" in html
    assert data["valid"]


def test_stopped_run_says_how_to_finish(tmp_path):
    _, data, text = built(tmp_path, Made(**SMALL, stop_after=20, torn=True))
    assert data["trials"]["not_run"] > 0
    assert "--resume" in text.replace("\n", " ")


def test_without_ceilings_nothing_is_claimed(tmp_path):
    html, data, _ = built(tmp_path, Made(**SMALL, ceilings=False))
    assert all(cell["save_of_limit"] is None for cell in data["cells"])
    assert "HC-03" in {each["id"] for each in data["unverified"]}
    assert "unverified" in data["validity"]
    assert "no ceiling was measured" in html


def test_without_device_counters_nothing_is_verified(tmp_path):
    _, data, _ = built(tmp_path, Made(**SMALL, device=False))
    assert {"HC-02", "HC-37"} <= {each["id"] for each in data["unverified"]}


def test_bytes_that_never_reached_the_disk_are_blocked(tmp_path):
    html, data, text = built(tmp_path, Made(**SMALL, cached=True))
    assert data["validity"].startswith("invalid: HC-02")
    assert data["targets"][0]["best"]["total"] is None
    assert "was the fastest seen, and HC-02 blocks it" in " ".join(text.split())
    assert data["targets"][0]["state"] == "no answer"
    assert data["targets"][0]["answers"][0]["advised"] is None
    assert "blocked by HC-02" in html


def test_warm_restores_block_only_restores(tmp_path):
    html, data, text = built(tmp_path, Made(**SMALL, warm=True))
    assert data["validity"].startswith("invalid: HC-05")
    assert data["targets"][0]["best"]["save"]["setting"]
    assert data["targets"][0]["best"]["restore"] is None
    assert "HC-05 blocks it: restores were not cold" in data["verdict"]
    assert "HC-05" in text
    assert "blocked by HC-05" in html


def test_one_codec(tmp_path):
    html, data, _ = built(tmp_path, Made(codecs=("none",), streams=(0, 4), repeats=2))
    assert len(data["cells"]) == 2
    assert "codec pays" not in data["verdict"]
    assert "<svg" in html


def test_one_setting_one_repeat(tmp_path):
    html, data, _ = built(tmp_path, Made(codecs=("none",), streams=(4,), repeats=1))
    assert "No advice: 1 repeat of none × 4" in data["verdict"]
    assert "[range]" in html


def test_two_targets(tmp_path):
    html, data, text = built(tmp_path, Made(**SMALL, targets={"fast": 1.0, "slow": 0.3}))
    assert [target["label"] for target in data["targets"]] == ["fast", "slow"]
    assert "fast: No advice: 3 repeats" in data["verdict"]
    assert "slow: No advice: 3 repeats" in data["verdict"]
    assert "Every setting on slow" in html
    assert "slow: write 0.61 GB/s" in text


def test_nothing_finished(tmp_path):
    html, data, _ = built(tmp_path, Made(**SMALL, stop_after=0))
    assert data["validity"] == "invalid: no trial finished"
    assert "Not drawn:" in html


def test_labels_and_messages_are_escaped(tmp_path):
    html, _, text = built(tmp_path, Made(**SMALL, targets={"<b>[red]x": 1.0}))
    assert "<b>[red]" not in html
    assert "&lt;b&gt;" in html
    assert "/mnt/<b>[red]x" not in text or "[red]" in text


def test_a_report_can_be_built_again(quick, page):
    report.build(quick)
    assert (quick / "report.html").read_text(encoding="utf-8") == page


def test_chromium_opens_it_without_a_complaint(quick, tmp_path):
    if CHROMIUM is None:
        assert "chromium" not in os.environ.get("SAVEMARK_REQUIRE", ""), "chromium is required"
        pytest.skip("no chromium here")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"]
    command += ["--no-first-run", "--disable-background-networking", "--disable-component-update"]
    command += ["--disable-sync", "--enable-logging=stderr", f"--user-data-dir={tmp_path}"]
    command += ["--dump-dom", f"file://{quick / 'report.html'}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert "CONSOLE" not in done.stderr
    dom = done.stdout
    assert report.summary(quick)["reason"] in dom
    assert dom.count('aria-roledescription="point"') >= 24 * 5 * 2
    assert '<form class="tools">' in dom  # the script ran: it shows the filters


def test_of_very_many_repeats_some_are_drawn_and_the_extremes():
    step = 4
    count = step * MOST_DOTS
    times = [1000 + place for place in range(count)]
    times[count // 2 + 1], times[count // 2 + 2] = 1, 10**6
    rows = pl.DataFrame({"setting": ["a", "b"] * (count // 2), "elapsed_ns": times})
    drawn, words = few(rows)
    assert len(drawn) <= MOST_DOTS + 4
    assert f"one repeat in {step}" in words
    assert {1, 10**6} <= set(drawn["elapsed_ns"])
    assert drawn["setting"].value_counts()["count"].min() >= MOST_DOTS // 2
    same, nothing = few(rows.head(MOST_DOTS))
    assert (len(same), nothing) == (MOST_DOTS, "")


def test_figures_that_cannot_become_pixels_are_an_error(tmp_path):
    good, bad = tmp_path / "good 1.svg", tmp_path / "bad.svg"
    good.write_text('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')
    bad.write_text("<svg")
    with Pixels() as pixels:
        pixels.add(good)
    assert good.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(OSError, match="could not be drawn as PNG"), Pixels() as pixels:
        pixels.add(bad)
    with pytest.raises(KeyError), Pixels() as pixels:
        raise KeyError


def panels(folder, name):
    """What a figure draws: the specification of each of its panels."""
    figure = next(f for f in all_figures() if f.name == name)
    return [panel.chart.to_dict() for panel in figure.draw(analyse(folder))]


def test_a_colour_is_one_stage_and_a_legend_names_what_is_drawn(quick):
    for panel in panels(quick, "stages"):
        scale = panel["layer"][0]["encoding"]["color"]["scale"]
        assert len(set(scale["range"])) == len(scale["range"])
        values = json.loads(panel["datasets"][panel["layer"][0]["data"]["name"]])
        assert {row["stage"] for row in values} == set(scale["domain"])
    colours = _paint(["transfer", "flush", "commit", "open", "drain", "notice"])
    assert len(set(colours)) == 6


def test_labels_of_many_decades_do_not_touch():
    def labels(low, high):
        return ticks(alt.Scale(type="log", domain=[low, high])).to_dict()["values"]

    assert labels(1, 100) == [1, 2, 3, 5, 10, 20, 30, 50, 100]
    assert labels(0.5, 300)[:4] == [0.5, 1, 2, 5]
    assert labels(0.01, 1000) == [0.01, 0.1, 1, 10, 100, 1000]


def test_time_begins_at_the_start_of_the_phase(quick):
    for panel in panels(quick, "timeline"):
        scale = panel["encoding"]["x"]["scale"]
        assert scale.get("zero") or scale["type"] == "symlog"
