"""The report of the study checkpoint-restore: both renderings, live and imported."""

import json
import re
from pathlib import Path

import pytest

from made_run import Made, make_run
from savemark.importing.read import read_source
from savemark.records.assemble import write_folder
from savemark.report import build, settings
from savemark.report.analysis import analyse
from savemark.report.figures import all_figures
from savemark.report.verdict import decision
from savemark.studies.checkpoint_restore.parts import STUDY, parts
from savemark.studies.checkpoint_restore.storages import storages_tables

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "streamer-bench"
needs_data = pytest.mark.skipif(not DATA.exists(), reason=f"{DATA} is not here")
HEAD = {"run_id": "r", "savemark_version": "0", "started_at": "", "command": ["savemark"]}
GPU = ("5_runs_s3_gpu.csv", "5_runs_cedana_gpu.csv", "5_runs_gpu_local_storage_stress.csv")
COLUMNS = "compression,streams,checkpoint_time,restore_time,run_number"


def imported(folder, *files):
    return write_folder([read_source(str(file)) for file in files], folder, HEAD)


def panels(analysis, name):
    figure = next(figure for figure in all_figures() if figure.name == name)
    assert figure.absent(analysis) is None
    return {panel.title: panel.chart.to_dict() for panel in figure.draw(analysis)}


def values(chart):
    """All rows of a chart, whichever way they are put in."""
    sets = chart["datasets"].values()
    return [row for each in sets for row in (json.loads(each) if isinstance(each, str) else each)]


def table(analysis, title):
    found = next(each for each in storages_tables(analysis) if each.title == title)
    return [[datum.text for datum in line.data] for line in found.lines]


@pytest.fixture
def live(tmp_path):
    """Two storages, the second half as fast."""
    targets = {"fast": 1.0, "slow": 0.5}
    made = Made(targets=targets, repeats=3, codecs=("none", "zstd"), study=STUDY)
    return make_run(tmp_path / "run", made)


@pytest.fixture
def small(tmp_path):
    """Two storages of which one lacks a cell, as CSVs."""
    a, b = tmp_path / "s3_gpu.csv", tmp_path / "local_gpu.csv"
    a.write_text(f"{COLUMNS}\nnone,0,3,5,1\nnone,0,1,9,2\nlz4,0,1,1,1\nlz4,0,1,2,2\n")
    b.write_text(f"{COLUMNS}\nnone,0,2,4,1\nnone,0,2,5,2\n")
    return analyse(imported(tmp_path / "run", a, b))


def test_a_missing_cell_is_said_and_never_drawn_as_zero(small):
    rows = values(panels(small, "study_min")["s3: 0 streams"])
    assert {row["codec"] for row in rows} == {"none", "lz4"}
    assert all(row["s"] > 0 for row in rows)
    both = panels(small, "storages_min")
    assert {row["storage"] for row in values(both["lz4"])} == {"s3"}
    assert "none" in both


def test_bars_hold_the_statistic_of_each_part_and_their_label(small):
    rows = {row["part"]: row for row in values(panels(small, "study_min")["s3: 0 streams"])
            if row["codec"] == "none"}  # fmt: skip
    assert {part: row["s"] for part, row in rows.items()} == {
        "checkpoint": 1.0,
        "restore": 5.0,
        "total": 8.0,
    }
    assert rows["total"]["text"] == "8.00"
    medians = values(panels(small, "study_median")["s3: 0 streams"])
    row = next(r for r in medians if (r["codec"], r["part"]) == ("none", "restore"))
    assert row["s"] == 7.0
    assert row["high"] - row["s"] == pytest.approx(8**0.5)  # one standard deviation of 5 and 9


def test_stacks_hold_both_parts_and_their_sum_on_top(small):
    rows = [r for r in values(panels(small, "storages_min")["none"]) if r["storage"] == "s3"]
    assert {row["part"]: row["s"] for row in rows} == {"checkpoint": 1.0, "restore": 5.0}
    assert {row["text"] for row in rows} == {"s3 6.0"}


def test_the_corrected_comparison_has_common_cells_only_and_names_the_rest(small):
    compared = next(each for each in storages_tables(small) if each.name.startswith("corrected_st"))
    assert [line.data[0].text for line in compared.lines] == ["none × 0"]
    assert "lz4 × 0" in compared.note
    assert set(panels(small, "storages_intervals")) == {"none"}


def test_storages_that_repeats_cannot_tell_apart_are_marked_as_tied(tmp_path):
    a, b = tmp_path / "a.csv", tmp_path / "b.csv"
    a.write_text(
        f"{COLUMNS}\nnone,0,1,1,1\nnone,0,1,3,2\nnone,0,1,2,3\n"
        "lz4,0,1,1,1\nlz4,0,1,2,2\nlz4,0,1,1,3\n"
    )
    b.write_text(
        f"{COLUMNS}\nnone,0,1,2.5,1\nnone,0,1,4,2\nnone,0,1,1.5,3\n"
        "lz4,0,9,9,1\nlz4,0,9,8,2\nlz4,0,9,9,3\n"
    )
    lines = table(analyse(imported(tmp_path / "run", a, b)), "Storages, corrected")
    marks = {line[0]: [cell[-1] for cell in line[1:]] for line in lines}
    assert marks == {"none × 0": ["◀", "="], "lz4 × 0": ["◀", "]"]}


def test_what_varies_besides_is_never_averaged(tmp_path):
    a, b = tmp_path / "s3_gpu.csv", tmp_path / "s3_cpu.csv"
    a.write_text(f"{COLUMNS}\nnone,0,3,5,1\n")
    b.write_text(f"{COLUMNS}\nnone,0,30,50,1\n")
    analysis = analyse(imported(tmp_path / "run", a, b))
    found = {part.title: part.legacy.streams()[0][1] for part in parts(analysis)}
    assert found == {"s3, process gpu": 8.0, "s3, process cpu": 80.0}
    assert "s3, process cpu: 0 streams" in panels(analysis, "study_min")


def test_another_study_has_none_of_it(tmp_path):
    analysis = analyse(make_run(tmp_path / "run", Made(repeats=1, codecs=("none",))))
    absent = {f.name: f.absent(analysis) for f in all_figures() if f.section == "study"}
    assert all(why.startswith("it belongs to the study ") for why in absent.values())
    assert absent["study_median"] == f"it belongs to the study {STUDY}"


@needs_data
def test_imported_files_give_the_published_report(tmp_path):
    folder = imported(tmp_path / "run", *(DATA / name for name in (*GPU, "disk_speeds")))
    page = build(folder).read_text()
    for name in ("study", "storages"):
        for kind in ("min", "median", "intervals"):
            assert (folder / "figures" / f"{name}_{kind}.png").stat().st_size > 10_000
            assert f'id="figure-{name}_{kind}"' in page
    assert "22.366" in (folder / "tables" / "legacy_s3.txt").read_text()
    text = (folder / "report.md").read_text()
    published = re.findall(r"\| Sequential.*\||\| Random.*\|", text)
    assert "| Sequential Writes | Initial Write | 629,524.62 | ~614.77 MB/s |" in published
    assert "| Sequential Writes | Rewrite | 867,051.62 | ~846.73 MB/s |" in published
    assert "| Random Reads | Random Read | 642,434.19 | ~627.38 MB/s |" in published
    assert "| Random Writes | Random Write | 509,545.06 | ~497.60 MB/s |" in published
    # What the parent saw: 118 304.28 kB/s, a fifth of what the study reports.
    assert "| Sequential Writes | Initial Write | 0.64 | [0.64 0.64] | 0.12 | 1 |" in published


@needs_data
def test_cells_that_one_storage_lacks_are_left_out_of_the_comparison(tmp_path):
    files = [DATA / "3_runs_s3.csv", DATA / GPU[2]]
    analysis = analyse(imported(tmp_path / "run", *files))
    # The older file does not say what it saved, so it is not compared with a process on a GPU.
    assert {part.variant for part in parts(analysis)} == {"", "process gpu"}
    named = [f"s3={tmp_path}/s3.csv", f"local={tmp_path}/local.csv"]
    for word, file in zip(named, files, strict=True):
        Path(word.split("=")[1]).write_bytes(file.read_bytes())
    analysis = analyse(imported(tmp_path / "again", *named))
    lines = table(analysis, "Storages, corrected")
    assert len(lines) == 12
    assert not any(line[0].startswith(("none", "tar")) for line in lines)


def test_live_runs_say_when_the_application_goes_on_and_when_bytes_are_safe(live):
    analysis = analyse(live)
    lines = {line[0]: line[1:] for line in table(analysis, "Moments on fast")}
    frozen, durable, drained, fetched, verified = lines["none × 4"][:5]
    assert frozen == durable == drained
    assert 0 < float(fetched) < float(verified)
    rows = analysis.frame
    assert rows["drained_ns"].null_count() < len(rows)
    disk = table(analysis, "Disk speeds of fast, corrected")
    assert [line[:2] for line in disk] == [
        ["Sequential Writes", "Initial Write"],
        ["Sequential Reads", "Read"],
        ["Random Reads", "Random Read"],
    ]
    slow = table(analysis, "Disk speeds of slow, corrected")
    assert float(slow[0][2]) == pytest.approx(float(disk[0][2]) / 2, rel=0.05)


def test_a_save_that_is_not_durable_has_no_durable_moment(tmp_path, live):
    for file in [live / "records.jsonl"]:
        file.write_text(file.read_text().replace('"durable": true', '"durable": false'))
    lines = table(analyse(live), "Moments on fast")
    assert {line[2] for line in lines} == {"–"}
    assert all(line[1] != "–" for line in lines)


def test_a_bucket_has_a_network_instead_of_disks(live):
    head = live / "run.json"
    head.write_text(head.read_text().replace('"target": "/mnt/slow"', '"target": "s3://b/p"'))
    titles = [each.title for each in storages_tables(analyse(live))]
    assert "Network to slow" in titles
    assert not any("Disk speeds of slow" in title for title in titles)
    assert [line[0] for line in table(analyse(live), "Network to slow")] == ["Download", "Upload"]


def test_memory_limits_stand_beside_none(tmp_path):
    for name, scale in (("", 4), ("_1000MB", 3), ("_250MB", 2), ("_100MB", 1)):
        rows = [f"none,{n},{scale},{scale},{run}" for n in (0, 2, 4) for run in (1, 2)]
        rows += [f"lz4,{n},{scale},1,{run}" for n in (0, 2, 4) for run in (1, 2)]
        (tmp_path / f"local_stress_py{name}.csv").write_text("\n".join([COLUMNS, *rows]) + "\n")
    files = sorted(tmp_path.glob("*.csv"))
    found = panels(analyse(imported(tmp_path / "run", *files)), "memory_limits")
    assert list(found) == ["local: 2 streams", "local: 4 streams"]
    rows = values(found["local: 2 streams"])
    order = ["0 streams", "no limit", "1000MB", "250MB", "100MB"]
    assert list(dict.fromkeys(row["scenario"] for row in rows)) == order
    totals = {row["scenario"]: row["total"] for row in rows if row["codec"] == "none"}
    assert list(totals.values()) == [8, 8, 6, 4, 2]


def test_what_is_saved_does_not_compete(tmp_path):
    a, b = tmp_path / "s3_gpu.csv", tmp_path / "s3_cpu.csv"
    a.write_text(f"{COLUMNS}\nnone,0,30,50,1\nlz4,0,20,20,1\n")
    b.write_text(f"{COLUMNS}\nnone,0,3,5,1\nlz4,0,4,6,1\n")
    analysis = analyse(imported(tmp_path / "run", a, b))
    said = decision(analysis)
    assert [sentence.split(", and")[0] for sentence in said] == [
        "process gpu: No advice: 1 repeat of lz4 × 0, process gpu",
        "process cpu: No advice: 1 repeat of none × 0, process cpu",
    ]
    titles = [each.title for each in settings.settings(analysis)]
    assert titles == ["Every setting, process gpu", "Every setting, process cpu"]
    winner = next(f for f in analysis.findings if f.id == "HC-18").evidence
    assert "lz4 × 0" in winner
    assert "none × 0" in winner
