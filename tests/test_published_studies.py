"""The studies acceptance, mounts and gpu-read-grid: small live runs, and made-up ones."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from made_grid import make_grid
from savemark.report import build, fitting, show
from savemark.report.additions import tables
from savemark.report.analysis import analyse
from savemark.report.figures import all_figures
from savemark.stats.cells import _first
from savemark.studies.acceptance.tables import NAMES
from savemark.studies.gpu_read_grid.tables import tables as grid_tables
from savemark.studies.mounts import tables as mounts
from savemark.study.keys import Keys
from savemark.study.load import load
from savemark.study.shipped import shipped


def shown(folder, name):
    """A copy of a shipped study in which phases of a moment are shown."""
    text = shipped()[name].read_text().replace("checks: {HC-13: {block_below: 0}}", "")
    (folder / f"{name}.yaml").write_text(f"{text}\nchecks: {{HC-13: {{seconds: 0}}}}\n")
    return f"./{name}.yaml"


def run(folder, *words):
    done = subprocess.run(
        [sys.executable, "-m", "savemark", "run", *words, "--out", "run"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "run", done


@pytest.fixture(scope="module")
def acceptance(tmp_path_factory):
    """Two file systems that have no stripes."""
    folder = tmp_path_factory.mktemp("acceptance")
    for name in ("a", "b"):
        (folder / name).mkdir()
    small = ["--repeats", "2", "--block-size", "256k", "--transfer-size", "64k", "--segments", "2"]
    small += ["--items", "40,80", "--workers", "1,2", "--size", "4m"]
    return run(folder, shown(folder, "acceptance"), *small, "disk=./a", "pool=./b")


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mounts")
    for name in ("a", "b"):
        (folder / name).mkdir()
    small = ["--repeats", "2", "--size", "1m"]
    return run(folder, shown(folder, "mounts"), *small, "disk=./a", "share=./b")


def figure(name):
    return next(each for each in all_figures() if each.name == name)


def rows(table):
    return [[datum.text for datum in line.data] for line in table.lines]


def values(chart):
    sets = chart.to_dict()["datasets"].values()
    return [row for each in sets for row in (json.loads(each) if isinstance(each, str) else each)]


def test_stripes_that_are_not_there_are_left_out_with_the_reason(acceptance):
    folder, done = acceptance
    told = [line for line in done.stderr.splitlines() if "unavailable" in line]
    assert len(told) == 2, "one line for each target"
    assert "stripe_count 1" in told[0]
    assert "stripes no files" in told[0]
    assert "savemark-2" not in told[0], "not the folder that is gone by now"
    assert "stripes no files" in (folder / "report.html").read_text()
    head = json.loads((folder / "run.json").read_text())
    assert not any(entry["factors"].get("part") == "stripes" for entry in head["plan"])


def test_the_originals_figures_are_drawn_with_its_statistics(acceptance):
    analysis = analyse(acceptance[0])
    expected = {
        "acceptance_shared_write": ["shared file, write"],
        "acceptance_shared_read": ["shared file, read"],
        "acceptance_fpp_write": ["file per process, write"],
        "acceptance_md_easy": ["metadata easy, disk", "metadata easy, pool"],
        "acceptance_md_hard": ["metadata hard, disk", "metadata hard, pool"],
    }
    for name, titles in expected.items():
        assert figure(name).absent(analysis) is None
        panels = figure(name).draw(analysis)
        assert sorted(panel.title for panel in panels) == titles
    chart = figure("acceptance_shared_write").draw(analysis)[0].chart
    dots = [row for row in values(chart) if row["line"] == "disk" and row["x"] == "2"]
    middle = next(row for row in dots if "low" in row)
    speeds = [row["y"] for row in dots if "low" not in row]
    assert middle["y"] == pytest.approx(sum(speeds) / len(speeds)), "a mean, as published"
    rates = analysis.frame.filter(
        (analysis.frame["part"] == "shared file")
        & (analysis.frame["label"] == "disk")
        & (analysis.frame["phase"] == "write")
        & (analysis.frame["workers"] == "2")
    )
    gib = (rates["user_bytes"] / rates["elapsed_ns"] * 1e9 / 2**30).to_list()
    assert sorted(speeds) == pytest.approx(sorted(gib)), "GiB/s are 2^30 bytes, not MiB / 1000"
    lines = {row["line"] for row in values(figure("acceptance_md_easy").draw(analysis)[0].chart)}
    assert lines == {"creation", "stat", "read", "rename", "removal"}


def test_the_highest_speeds_come_from_the_records(acceptance):
    analysis = analyse(acceptance[0])
    (table,) = tables(analysis)
    assert table.name == "acceptance_maxima"
    found = {(row[0], row[1], row[2]): row for row in rows(table)}
    expected = {}  # what a check forbids on a busy machine is not among them
    for result in analysis.results:
        for part, mine in analysis.apart(result).items():
            for phase in mine.phases:
                may = [c for c in mine.cells if phase in c.phases and phase not in c.blocked]
                if may:
                    best = max(may, key=lambda cell: cell.phases[phase].speed)
                    name = NAMES[phase] if part.startswith("metadata") else phase
                    expected[result.label, part, name] = best
    assert set(found) == set(expected)
    for key, best in expected.items():
        assert found[key][3] == best.setting.removeprefix(f"{key[1]}, ")
        assert ("kop/s" if key[1].startswith("metadata") else "GiB/s") in found[key][6]


def test_a_write_has_two_speeds_in_one_trial(paths):
    analysis = analyse(paths[0])
    names = [table.name for table in tables(analysis)]
    assert names == ["legacy_bandwidth", "legacy_iops", "mounts"]
    for row in mounts.application(analysis, "disk", "sequential write"):
        assert 0 < row["until_ns"] < row["elapsed_ns"], "the flush comes after the last write"
        assert row["durable"]
        assert row["user_bytes"] == 4 << 20, "four files"
    corrected = {(row[0], row[1]): row for row in rows(tables(analysis)[2])}
    write = corrected["Sequential Write", "share"]
    assert float(write[2]) > float(write[5]) > 0, "what is safe is slower"
    assert corrected["Sequential Read", "disk"][5] == "–", "reading needs no flush"
    legacy = {row[0]: row[1:] for row in rows(tables(analysis)[0])}
    each = mounts.application(analysis, "disk", "sequential write")
    speeds = [row["user_bytes"] / row["until_ns"] * 1e9 / 1e6 for row in each]
    assert float(legacy["Sequential Write"][0]) == pytest.approx(sum(speeds) / 2, abs=0.6)
    iops = {row[0]: row[1:] for row in rows(tables(analysis)[1])}
    seen = float(iops["Sequential Write"][0]) * 65536 / 1e6
    assert seen == pytest.approx(float(legacy["Sequential Write"][0]), rel=0.01)


def test_the_terminal_shows_what_the_study_is_about(paths):
    folder, done = paths
    assert "safe GB/s" in done.stdout
    assert "Sequential Write" in done.stdout
    assert [table.name for table in tables(analyse(folder)) if table.brief] == ["mounts"]
    assert "Bandwidth and IOPS, corrected" in (folder / "report.md").read_text()


def test_the_grid_is_the_published_one():
    study = load(shipped()["gpu-read-grid"], Keys.load())
    assert len(study.cells()) * study.repeats == 3360
    assert study.factors["workers"] == [1, 4, 16, 32, 64, 96, 128]
    assert study.factors["transfer_size"] == [65536, 262144, 1048576, 4194304]
    assert study.factors["gpus"] == ["0,1", "0,1,2,3", "0,1,6,7", "0-7"]
    assert study.trial["keep"], "one file for all trials"


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    return make_grid(tmp_path_factory.mktemp("grid") / "run", repeats=3)


def test_first_last_and_diff_in_the_originals_unit(grid):
    analysis = analyse(grid)
    (panel,) = figure("gpu_grid_last").draw(analysis)
    marks = [row for row in values(panel.chart) if row["kind"] == "median"]
    assert len(marks) == 336
    place = {"label": "nvme", "gpus": "0-7", "transfer_size": "4194304", "workers": "128"}
    rows_ = analysis.frame
    for name, level in place.items():
        rows_ = rows_.filter(rows_[name].cast(str) == level)
    speeds = sorted((rows_["user_bytes"] / rows_["elapsed_ns"] * 1e9 / 2**20).to_list())
    mark = next(
        row
        for row in marks
        if (row["line"], row["across"]) == ("nvme", "128")
        and row["column"] == "gpus 0-7"
        and row["row"].endswith("4MiB")
    )
    assert mark["y"] == pytest.approx(speeds[1]), "the median, in MiB/s"
    mean = sum(speeds) / 3
    deviation = (sum((x - mean) ** 2 for x in speeds) / 2) ** 0.5
    assert mark["high"] - mark["y"] == pytest.approx(deviation)
    letters = [row["letter"] for row in values(panel.chart) if row["kind"] == "letter"]
    assert (letters[0], letters[-1]) == ("(a)", "(p)")
    for name in ("gpu_grid_first", "gpu_grid_diff"):
        assert figure(name).draw(analysis)


def test_the_grids_tables_name_settings_and_the_fastest(grid):
    settings, best = grid_tables(analyse(grid))
    told = dict(rows(settings))
    assert told["number of workers `-t`"] == "1, 4, 16, 32, 64, 96, 128"
    assert told["buffer size `-b`"] == "64KiB, 256KiB, 1MiB, 4MiB"
    assert [row[0] for row in rows(best)] == ["gdsddn", "gdsnvme", "nvme"]
    first, last, diff = (float(x) for x in rows(best)[0][2:5])
    assert first > diff >= 0
    assert last > diff
    cpu = dict(zip(best.columns, rows(best)[0], strict=True))["CPU-s/GB"]
    assert 0 < float(cpu) < 10


def test_a_path_and_a_transfer_are_one_storage(tmp_path):
    folder = make_grid(tmp_path / "run", repeats=1)
    head = json.loads((folder / "run.json").read_text())
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    for items in (head["plan"], lines):
        for item in items:
            if item["role"] == "trial":
                both = [item["factors"] | {"transfer": way} for way in ("gpudirect", "bounce")]
                item["factors"] = both[item["factors"]["workers"] % 8 == 0]
    (folder / "run.json").write_text(json.dumps(head))
    (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (panel,) = figure("gpu_grid_last").draw(analyse(folder))
    lines = {row["line"] for row in values(panel.chart) if row["kind"] == "median"}
    assert "gdsddn gpudirect" in lines
    assert len(lines) == 6


def test_the_page_of_a_study_has_its_tables(acceptance):
    page = build(acceptance[0]).read_text()
    assert "Highest speeds" in page
    assert "Disk speeds" not in page, "that is another study's table"
    assert "Write to a shared file" in page


def test_files_that_are_kept_are_laid_out_once(tmp_path):
    study = """\
name: kept
title: Is the file written once?
repeats: 3
trial: {workload: sequential, storage: posix, operation: read, size: 2MiB, keep: true}
factors: {transfer_size: [64KiB, 128KiB], workers: [1, 2]}
"""
    (tmp_path / "kept.yaml").write_text(study)
    (tmp_path / "here").mkdir()
    folder, _ = run(tmp_path, "./kept.yaml", "./here")
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    names = [[phase["name"] for phase in line["record"]["phases"]] for line in lines]
    assert names == [["prepare", "read"]] + [["read"]] * 11
    assert "earlier trial" in lines[1]["record"]["phases"][0]["notes"][0]
    assert not list((tmp_path / "here").iterdir()), "it goes with the run's folder"
    # How long 2 MiB take is chance: of a slow first read the check would say something else.
    for phase in (phase for line in lines for phase in line["record"]["phases"]):
        phase["elapsed_ns"] = 10**7
    (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    evidence = {f.id: f for f in analyse(folder).findings}["HC-06"]
    assert evidence.evidence.startswith("12 trials read the same file")


def test_a_kept_file_is_forecast_once(tmp_path):
    from savemark.study import sizing
    from savemark.study.cost import Rates

    keys = Keys.load()
    study = load(shipped()["gpu-read-grid"], keys)
    total = sizing.total(study, keys, ["a", "b"], Rates(cores=2, storages={}, overhead_s=0.05))
    assert total.written == 2 << 30, "one file on each path, not 3,360"
    assert total.held == 1 << 30
    assert total.seconds == pytest.approx(2 * 3370 * 4.05, rel=0.05)


def on_screen(folder, width):
    console = Console(file=io.StringIO(), width=width)
    show(folder, console)
    return console.file.getvalue()


def test_the_terminal_tells_when_the_first_worker_was_done(acceptance):
    folder, _ = acceptance
    text = on_screen(folder, 160)
    assert fitting.FIRST in " ".join(text.split())
    lines = text.splitlines()
    start = lines.index("shared file")
    heads = lines[start + 2].split()
    assert heads.count("first") == heads.count("diff") == 2, "write and read"
    assert "ratio" not in heads, "nothing has a codec"
    rows = lines[start + 3 :]
    one = next(line for line in rows if line.startswith("workers 1"))
    assert one.split().count("–") == 4, "one worker is first and last"
    metadata = lines[lines.index("metadata easy") + 2]
    assert "first" not in metadata.split(), "names are counted by their own table"


@pytest.mark.parametrize("width", [80, 96, 110, 130])
def test_no_column_of_the_main_table_is_cut_off(acceptance, width):
    text = on_screen(acceptance[0], width)
    main = text[: text.index("Highest speeds")]
    assert "…" not in main
    assert max(map(len, main.splitlines())) <= width
    assert ("first:" in text) == ("first" in main), "what is shown is explained, nothing else"


def test_first_is_bytes_until_then_and_diff_of_each_trial():
    row = {
        "first_done_ns": [10**9, 2 * 10**9, 10**9, 10**9],
        "first_done_bytes": [600, 1000, 1000, None],
        "last_done_ns": [2 * 10**9, 4 * 10**9, 10**9, 2 * 10**9],
        "user_bytes": [1000, 1000, 1000, 1000],
        "elapsed_ns": [2 * 10**9, 4 * 10**9, 10**9, 2 * 10**9],
    }
    # 600/s until the first and 500/s until the last; 500/s and 250/s; then one worker; not known.
    assert _first(row) == (550, 175)
    assert _first({name: each[2:] for name, each in row.items()}) == (0.0, 0.0)


def test_figures_leave_out_what_has_nothing_in_them(acceptance):
    analysis = analyse(acceptance[0])
    figures = {figure.name: figure for figure in all_figures()}
    assert figures["threads"].absent(analysis) == "what the threads did is not recorded"
    shown = [panel.title for panel in figures["stages"].draw(analysis)]
    assert shown
    assert all("write" in title.lower() or "create" in title.lower() for title in shown), shown
    names = analysis.short(analysis.rows("disk", "write"))["setting"].unique()
    assert not [name for name in names if "none" in name], "items are no factor of a file"


def test_only_its_own_folder_names_a_study():
    package = Path(mounts.__file__).parents[2]
    own = [name for name, file in shipped().items() if (file.parent / "tables.py").exists()]
    assert len(own) >= 6
    texts = {
        path.relative_to(package): path.read_text(encoding="utf-8")
        for room in ("report", "importing", "stats", "checks", "advice")
        for path in (package / room).rglob("*.py")
    }
    named = [(path, name) for path, text in texts.items() for name in own if f'"{name}"' in text]
    assert named == []
