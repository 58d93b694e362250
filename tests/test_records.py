"""Reading a run folder: types, torn lines, failed trials, timelines."""

import json

import polars as pl
import pytest

from made_run import Made, make_run
from savemark.errors import SavemarkError
from savemark.records import cores, phases, read_run, write_timelines
from savemark.records.head import Cpu, Host, HostLimits
from savemark.records.naming import setting

SMALL = {"codecs": ("none", "zstd"), "streams": (0, 4), "repeats": 2}


def test_a_run_and_its_frame(tmp_path):
    run = read_run(make_run(tmp_path, Made(**SMALL)))
    assert run.study_name == "quick"
    assert [(t.label, t.target) for t in run.targets] == [("scratch", "/mnt/scratch")]
    assert not run.failed
    assert not run.missing
    frame = phases(run)
    trials = frame.filter(pl.col("role") == "trial")
    assert len(trials) == 2 * 2 * 2 * 2  # codecs × streams × repeats × phases
    assert set(trials["phase"]) == {"save", "restore"}
    assert trials["streams"].dtype == pl.Int64
    assert trials["elapsed_ns"].null_count() == 0
    assert trials["stage_transfer_ns"].null_count() == 0
    assert set(trials.filter(pl.col("phase") == "restore")["verified"]) == {"every chunk"}


def test_torn_last_line_and_stopped_run(tmp_path):
    run = read_run(make_run(tmp_path, Made(**SMALL, stop_after=5, torn=True)))
    assert len(run.entries) == 5
    assert run.unreadable_lines == 1
    assert len(run.missing) == len(run.plan) - 5


def test_a_repeated_index_counts_once_and_the_later_line_wins(tmp_path):
    folder = make_run(tmp_path, Made(**SMALL))
    lines = (folder / "records.jsonl").read_text().splitlines()
    failed = json.loads(lines[0]) | {
        "status": "failed",
        "record": None,
        "error": {"kind": "failed"},
    }
    (folder / "records.jsonl").write_text("\n".join([json.dumps(failed), *lines]) + "\n")
    run = read_run(folder)
    assert len(run.entries) == len(lines)
    assert not run.failed


def test_failed_trials_stay_as_rows(tmp_path):
    frame = phases(read_run(make_run(tmp_path, Made(**SMALL, fail=("zstd", 4)))))
    failed = frame.filter(pl.col("status") == "failed")
    assert len(failed) == 2
    assert set(failed["setting"]) == {"zstd × 4"}
    assert failed["phase"].null_count() == 2
    assert "No space left" in failed["error_message"][0]


def test_rows_that_are_equal_in_all_columns_are_all_kept(tmp_path):
    folder = make_run(tmp_path, Made(codecs=("none",), streams=(4,), repeats=1, ceilings=False))
    (line,) = (json.loads(each) for each in (folder / "records.jsonl").read_text().splitlines())
    line["record"]["phases"] = [{"name": "save", "elapsed_ns": 5}] * 3
    (folder / "records.jsonl").write_text(json.dumps(line) + "\n")
    frame = phases(read_run(folder))
    assert frame.select("phase", "elapsed_ns", "setting").rows() == [("save", 5, "none × 4")] * 3
    assert frame.schema["elapsed_ns"] == pl.Int64


def test_columns_whose_value_changes_between_two_parts_have_both(tmp_path, monkeypatch):
    monkeypatch.setattr("savemark.records.frame.ROWS_AT_ONCE", 2)
    folder = make_run(tmp_path, Made(**SMALL))
    lines = [json.loads(each) for each in (folder / "records.jsonl").read_text().splitlines()]
    for place, line in enumerate(lines):
        for phase in line["record"]["phases"]:
            phase["operations"] = place // 4
    (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    frame = phases(read_run(folder)).sort("position")
    assert frame["io_count"].to_list() == [position // 4 for position in frame["position"]]
    assert frame["iterations"].null_count() == len(frame)


def test_empty_run_has_all_columns(tmp_path):
    folder = make_run(tmp_path, Made(**SMALL))
    (folder / "records.jsonl").unlink()
    frame = phases(read_run(folder))
    assert frame.is_empty()
    assert {"codec", "streams", "elapsed_ns"} <= set(frame.columns)


def test_timelines(tmp_path):
    folder = make_run(tmp_path, Made(**SMALL))
    table = pl.read_parquet(write_timelines(folder))
    assert {"index", "phase", "start_ns", "bytes"} <= set(table.columns)
    one = table.filter(
        (pl.col("index") == table["index"][0]) & (pl.col("phase") == table["phase"][0])
    )
    assert one["start_ns"].to_list() == [i * 100_000_000 for i in range(len(one))]


def test_not_a_run(tmp_path):
    with pytest.raises(SavemarkError, match="not a run folder"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text('{"schema": 99}')
    with pytest.raises(SavemarkError, match="schema 99"):
        read_run(tmp_path)


def test_settings_have_one_name():
    assert setting({"codec": "zstd", "streams": 4}) == "zstd × 4"
    assert setting({"codec": None, "streams": 0, "payload": "text"}) == "none × 0, payload text"
    assert setting({"streams": 2}) == "streams × 2"
    assert setting({"target": "fast", "codec": "zstd", "streams": 4}) == "zstd × 4"
    assert setting({}) == "the only setting"


def test_cores_know_affinity_and_quota():
    assert cores(Host(cpu=Cpu(logical=8, available=4))) == 4
    assert cores(Host(cpu=Cpu(available=4), limits=HostLimits(cgroup_cpus=1.5))) == 2
    assert cores(Host()) is None
