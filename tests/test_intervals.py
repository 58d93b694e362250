"""No median lies outside the interval that is printed beside it, whatever the records hold."""

import csv
import json
import random
import re

import pytest

from made_run import Made, make_run
from savemark.report.analysis import analyse
from savemark.report.csv import write_csv
from savemark.report.facts import ceilings_table
from savemark.report.json import of
from savemark.report.settings import records, settings, table
from savemark.report.text import gbs

RANGE = re.compile(r"\[([\d.]+) ([\d.]+)\]")


def scattered(folder, repeats, seed):
    """A run whose phases last a tenth to ten times as long, and did as unlike work."""
    rng = random.Random(seed)
    make_run(folder, Made(("none", "zstd"), (0, 4), repeats))
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    for line in lines:
        for phase in line["record"]["phases"]:
            phase["elapsed_ns"] = int(phase["elapsed_ns"] * 10 ** rng.uniform(-1, 1))
            done = 10 ** rng.uniform(-1, 1) if seed % 2 else 1
            for name in ("user_bytes", "stored_bytes", "operations"):
                phase[name] = int(phase[name] * done)
    (folder / "records.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def bracketed(table):
    """Each number that stands before an interval, with its ends."""
    for line in table.lines:
        for middle, datum in zip(line.data, line.data[1:], strict=False):
            if found := RANGE.fullmatch(datum.text):
                yield float(middle.text), float(found[1]), float(found[2])


def tables(analysis):
    return [table(each) for each in settings(analysis)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("repeats", [1, 2, 5, 6, 9])
def test_every_median_lies_within_its_own_interval(tmp_path, repeats, seed):
    analysis = analyse(scattered(tmp_path / "run", repeats, seed), show_blocked=True)
    shown = [*tables(analysis), *(ceilings_table(result) for result in analysis.results)]
    found = [each for one in shown for each in bracketed(one)]
    assert len(found) >= 8 + 7, "two phases of four cells, and the ceilings"
    data = of(analysis)
    for cell in [*data["cells"], *records(analysis)]:
        for phase in ("save", "restore"):
            found.append(tuple(cell[f"{phase}_s_{end}"] for end in ("median", "low", "high")))
    for each in data["targets"][0]["ceilings"]:
        found.append(tuple(each[f"bytes_per_s{end}"] for end in ("", "_low", "_high")))
    assert [each for each in found if not each[1] <= each[0] <= each[2]] == []


def test_all_formats_print_one_rate(tmp_path):
    analysis = analyse(scattered(tmp_path / "run", 6, 1), show_blocked=True)
    write_csv(tmp_path / "settings.csv", records(analysis))
    with (tmp_path / "settings.csv").open(newline="", encoding="utf-8") as file:
        in_file = {
            row["setting"]: gbs(float(row["save_user_bytes_per_s"])) for row in csv.DictReader(file)
        }
    in_json = {c["setting"]: gbs(c["save_user_bytes_per_s"]) for c in of(analysis)["cells"]}
    assert in_file == in_json
    printed = {middle for one in tables(analysis) for middle, _, _ in bracketed(one)}
    assert set(map(float, in_file.values())) <= printed
