"""The result on a terminal of 80 columns: a few lines, nothing cut off, one command."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from made_race import Race, make_race
from savemark import report
from savemark.report.analysis import analyse
from savemark.report.remedies import beside, caveats, first_sentence, messages
from savemark.report.screened import tables
from savemark.units import gbs, rate_text

DATA = Path(__file__).parent / "data"
BUSY = {"quiet": False, "disturbed_by": "process `stress` used 87 % of a core"}
NOISY = {("none", 4): 0.3, ("none", 16): 0.3, ("lz4", 4): 0.3}
RACES = {
    "default": Race(),
    "one": Race(finalists=(("none", 1),)),
    "two": Race(finalists=(("none", 4),)),
    "five": Race(finalists=(("none", 4), ("none", 16), ("lz4", 4), ("planes", 4), ("zstd", 4))),
    "blocked": Race(cached=(("none", 4),)),
    "busy": Race(rest=BUSY),
    "open": Race(noise=NOISY, seed=2),
    "few": Race(repeats=3),
    "short": Race(size=2**29),
    "stopped": Race(stop_after=9),
    "bucket": Race(targets={"s3": "s3://bucket/x"}),
}


def screen(folder, width=80):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    report.show(folder, console)
    return console.file.getvalue()


@pytest.mark.parametrize("name", list(RACES))
def test_a_default_run_ends_in_twelve_lines(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = make_race(Path("savemark-runs/2026-11-20T19-40-quick"), RACES[name])
    text = screen(folder)
    lines = text.splitlines()
    # One more line tells where the report is. A command may be longer than a line.
    shown = sum(max(1, -(-len(line.rstrip()) // 80)) for line in lines) + 1
    assert shown <= 12, text
    assert all(len(line) <= 80 or "savemark " in line for line in lines), text
    assert "o…" not in text
    words = [word for word in ("trusted", "provisional", "no answer") if word in lines[0]]
    assert len(words) == 1, text
    assert sum(line.lstrip().startswith(("next", "savemark")) for line in lines) in (1, 2)


def test_the_screen_is_what_the_example_shows(tmp_path):
    lines = screen(make_race(tmp_path / "run")).splitlines()
    assert re.fullmatch(r"No compression, (4|16) parallel files\. +trusted", lines[0])
    number = r"{0} +\d\.\d\d GB/s +\[\d\.\d\d \d\.\d\d\] +\d\d % of the disk +2\.\d × one file *"
    assert re.fullmatch(number.format("save"), lines[1])
    assert re.fullmatch(number.format("restore"), lines[2])
    assert re.match(r"as fast +none × (4|16) \(within 10 %\)", lines[3])
    assert re.match(r"slower +planes × 4 by \d+ to \d+ %, with 33 % fewer bytes; lz4 × 4", lines[4])


def test_what_is_narrow_loses_the_baseline_first_and_never_the_speed(tmp_path):
    folder = make_race(tmp_path / "run")
    for width, holds, lacks in ((60, "of the disk", "one file"), (40, "[3.", "of the disk")):
        text = screen(folder, width)
        assert holds in text
        assert lacks not in text
        assert "GB/s" in text


def test_a_run_of_other_files_keeps_its_rates_at_80_columns(tmp_path):
    from datetime import datetime

    from savemark.cli.import_ import head
    from savemark.importing.gather import gather
    from savemark.records.assemble import write_folder

    for tool in ("fio", "ior", "elbencho", "mdtest"):
        readings, _ = gather([str(DATA / tool)])
        folder = write_folder(readings, tmp_path / tool, head(datetime.now().astimezone()), [])
        text = screen(folder)
        assert "o…" not in text, text
        assert not re.search(r"\w…", text.split("… all")[0]), text
        assert "no setting can be recommended" not in text
        cells = [cell for result in analyse(folder).results for cell in result.cells]
        if any(cell.phases for cell in cells):
            assert re.search(r"\d\.\d+|\d+k", text), text


def test_findings_with_one_remedy_are_one_message(tmp_path):
    folder = make_race(tmp_path / "run", Race(cached=(("planes", 4),)))
    found = analyse(folder)
    merged = messages(beside(found))
    ids = [identifier for each in merged for identifier in each.ids]
    assert len(ids) == len(set(ids)) == len(beside(found))
    assert [each.kind for each in merged].count("an idle machine") == 1
    for each in merged:
        assert len(re.findall(r"[.!?](?:\s+[A-Z]|$)", each.text)) <= 2, each.text
    line = caveats(merged)
    assert line.startswith(f"{len(merged)} caveats: the device did not receive the bytes (HC-02)")
    assert "\n" not in line
    assert "HC-18" not in line, "the answer says which are as fast"


def test_a_sentence_ends_where_the_next_one_begins():
    assert first_sentence("It took 0.5 s. Then it was done.") == "It took 0.5 s"
    assert first_sentence("See fio.json (v. 3). (The study sets a = 1.)") == "See fio.json (v. 3)"
    assert first_sentence("") == ""


def test_screened_settings_are_a_table_of_their_own(tmp_path):
    folder = make_race(tmp_path / "run")
    (table,) = tables(analyse(folder))
    assert table.title == "Screened: one or two short trials each, not compared"
    rows = [[datum.text for datum in line.data] for line in table.lines]
    assert rows[0] == ["none × 4", "3.000", "100 %", "100 %", "yes", "1.0 × the time of none × 4"]
    assert rows[-1][:5] == ["zstd × 1", "–", "–", "–", "not run"]
    assert "at least 2.3 ×" in rows[-1][5]
    for text in (report.build(folder).read_text(), (folder / "report.md").read_text()):
        assert "one or two short trials each, not compared" in text
    # No screened trial is in a statistic: none of the settings that only they have is a cell.
    cells = {cell["setting"] for cell in report.summary(folder)["cells"]}
    assert "lz4 × 16" not in cells
    assert {cell["n"] for cell in report.summary(folder)["cells"]} == {6}


def test_one_rule_writes_every_speed():
    assert [gbs(rate) for rate in (0, 12.34e9, 1.914e9, 0.314e9, 57.2e6, 1.23e6, 4e3)] == [
        "–", "12.3", "1.91", "0.31", "0.057", "0.0012", "0.0000040",
    ]  # fmt: skip
    assert rate_text(314e6) == "0.31 GB/s"
