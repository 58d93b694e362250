"""`savemark import`: what files say arrives, what they do not say stays absent."""

import hashlib
import json
from pathlib import Path

import polars as pl
import pytest

from savemark.errors import SavemarkError
from savemark.importing.read import read, read_source
from savemark.records import phases, read_run
from savemark.records.assemble import write_folder
from savemark.report.analysis import analyse
from savemark.stats import results
from savemark.studies.checkpoint_restore.legacy import of_result
from savemark.tools.source import Source

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "streamer-bench"
needs_data = pytest.mark.skipif(not DATA.exists(), reason=f"{DATA} is not here")
HEAD = {"run_id": "r", "savemark_version": "0", "started_at": "", "command": ["savemark"]}
COLUMNS = "compression,streams,checkpoint_time,restore_time,total_time,timestamp,run_number"
ROW = "lz4,2,1.25,.75,2.00,2026-01-27T15:11:27+00:00,1"


@pytest.fixture
def bring(tmp_path):
    """Write files, import them, and return the run; `names` may be LABEL=NAME."""

    def bring(files, *arguments):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        asked = arguments or files
        words = [n.replace("=", f"={tmp_path}/") if "=" in n else f"{tmp_path}/{n}" for n in asked]
        folder = write_folder([read_source(word) for word in words], tmp_path / "run", HEAD)
        return read_run(folder)

    return bring


def rows(*lines):
    return "\n".join([COLUMNS, *lines]) + "\n"


def refused(bring, text):
    with pytest.raises(SavemarkError) as caught:
        bring({"x.csv": text})
    assert caught.value.kind == "usage"
    return caught.value.message


def test_a_row_becomes_a_trial_and_nothing_is_made_up(bring, tmp_path):
    run = bring({"5_runs_s3_gpu.csv": rows(ROW)})
    assert run.origin == "imported"
    frame = phases(run)
    assert frame["phase"].to_list() == ["save", "restore"]
    assert frame["elapsed_ns"].to_list() == [1_250_000_000, 750_000_000]
    row = frame.row(0, named=True)
    assert (row["label"], row["codec"], row["streams"]) == ("s3", "lz4", 2)
    assert row["tool"] == "cedana"
    assert row["timer_resolution_ns"] == 10_000_000
    assert row["origin"] == "imported"
    unknown = ("user_bytes", "stored_bytes", "storage_path", "durable", "verified", "frozen_ns")
    for column in (*unknown, "device_name", "cpu_user_ns", "tool_version", "cache_state"):
        assert row[column] is None, column
    original = (tmp_path / "run" / "originals" / "5_runs_s3_gpu.csv").read_bytes()
    assert row["source_sha256"] == hashlib.sha256(original).hexdigest()
    assert run.sources[0].sha256 == row["source_sha256"]


def test_junk_around_the_rows_is_passed_over_and_said(bring):
    text = (
        "\ufeff=== RUN ===\r\n" + rows(ROW).replace("\n", "\r\n") + "Benchmarks completed!\r\n\r\n"
    )
    run = bring({"x.csv": text})
    assert len(run.entries) == 1
    assert run.targets[0].label == "x"
    assert "1 lines" in (run.folder / "log.txt").read_text()


def test_an_empty_time_is_a_failed_trial_not_a_zero(bring):
    run = bring({"x.csv": rows(ROW, "lz4,4,1.0,,,2026-01-27T15:11:27+00:00,1")})
    assert [entry.ok for entry in run.entries] == [True, False]
    assert "restore_time is empty" in run.entries[1].error.message
    assert phases(run).filter(pl.col("streams") == 4)["elapsed_ns"].to_list() == [None]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("lz4,2,fast,.75,2.00,,1", "x.csv:3: checkpoint_time: `fast` is not a number"),
        ("lz4,2,-1,.75,-.25,,1", "x.csv:3: checkpoint_time: `-1` is not a time"),
        ("lz4,2,inf,.75,2.00,,1", "is not a time"),
        ("lz4,many,1.25,.75,2.00,,1", "streams: `many` is not a whole number"),
        ("lz4,2,1.25,.75", "4 fields where the header has 7"),
        ("lz4,2,1.25,.75,9.00,,1", "add up to 2.00"),
        (",2,1.25,.75,2.00,,1", "compression is empty"),
        ("lz4,2,1.25,.75,2.00,soon,1", "timestamp: `soon`"),
        ("lz4,2,1.25,.75,2.00,,0", "runs count from 1"),
        ("lz4,2,1.25,.75,2.00,,1000000000", "runs count from 1, and not to 1000000000"),
        (f"lz4,2,1.25,.75,2.00,,{'9' * 5000}", "is not a whole number that can be"),
        ("lz4,2,1e9999999,.75,2.00,,1", "is not a time"),
        ("lz4,2,1.25,.75,2.00,0001-01-01T00:00:00,1", "is not a date"),
        (f"lz4,{'9' * 25},1.25,.75,2.00,,1", "is not a whole number that can be"),
        (ROW, "is there twice"),
    ],
)
def test_damage_is_named_with_file_and_line(bring, row, said):
    assert said in refused(bring, rows(ROW, row))


def test_a_file_of_no_known_format_is_refused_with_what_is_known(bring):
    assert "not a result file" in refused(bring, "a,b\n1,2\n")
    assert "no row" in refused(bring, COLUMNS + "\n")


def test_what_varies_between_files_is_a_factor_and_what_does_not_is_none(bring):
    run = bring({"s3_cuda_100MB.csv": rows(ROW), "s3_cuda_250MB.csv": rows(ROW)})
    assert {e.factors["memory_limit"] for e in run.entries} == {"100MB", "250MB"}
    assert all("process" not in e.factors for e in run.entries)
    assert run.study.trial == {"process": "gpu"}
    assert set(phases(run)["variant"]) == {"memory_limit 100MB", "memory_limit 250MB"}


def test_files_of_the_same_name_are_told_apart_by_labels(bring):
    files = {"s3_a.csv": rows(ROW), "s3_b.csv": rows(ROW)}
    with pytest.raises(SavemarkError, match="is there twice"):
        bring(files)
    run = bring(files, "one=s3_a.csv", "two=s3_b.csv")
    assert [t.label for t in run.targets] == ["one", "two"]
    assert run.entries[1].factors["target"] == "two"


def test_a_folder_with_something_in_it_is_refused(bring, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").touch()
    assert "is not empty" in refused(bring, rows(ROW))


@needs_data
def test_cells_that_the_script_runs_and_the_file_lacks_are_missing(tmp_path):
    run = read_run(write_folder([read_source(f"{DATA}/3_runs_s3.csv")], tmp_path / "run", HEAD))
    assert len(run.entries) == 36
    missing = {(e.factors["codec"], e.factors["streams"]) for e in run.missing}
    assert missing == {(codec, n) for codec in ("none", "tar") for n in (0, 2, 4, 8)}
    assert len(run.missing) == 24


PUBLISHED = {
    "s3": ([22.366, 14.042, 10.894, 9.860], [23.518, 14.804, 11.496, 10.264]),
    "cedana": ([18.264, 15.772, 15.728, 16.486], [19.346, 17.568, 17.590, 18.104]),
    "local": ([11.576, 9.764, 9.066, 8.642], [12.118, 10.190, 9.408, 8.962]),
}


@needs_data
def test_three_files_in_one_run_give_the_published_stream_tables(tmp_path):
    names = ["5_runs_s3_gpu.csv", "5_runs_cedana_gpu.csv", "5_runs_gpu_local_storage_stress.csv"]
    sources = [read_source(f"{DATA}/{name}") for name in names]
    run = read_run(write_folder(sources, tmp_path / "run", HEAD))
    assert not run.missing
    for result in results(run):
        lines = of_result(result).streams()
        minima, medians = PUBLISHED[result.label]
        assert [round(line[1], 3) for line in lines] == minima
        assert [round(line[2], 3) for line in lines] == medians


def test_the_command_says_where_the_run_is_and_how_to_go_on(savemark, tmp_path):
    (tmp_path / "5_runs_s3_gpu.csv").write_text(rows(ROW) + "done\n")
    done = savemark("import", "5_runs_s3_gpu.csv", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "savemark report run" in done.stdout
    assert "passed over 1 lines" in done.stderr
    assert json.loads((tmp_path / "run" / "run.json").read_text())["origin"] == "imported"
    again = savemark("import", "nowhere.csv")
    assert again.returncode == 2
    assert "nowhere.csv" in again.stderr


@needs_data
def test_iozone_alone_is_what_was_measured(tmp_path):
    run = read_run(write_folder([read_source(f"{DATA}/disk_speeds")], tmp_path / "run", HEAD))
    frame = phases(run)
    assert frame["role"].unique().to_list() == ["trial"]
    assert frame["phase"].to_list() == ["write", "rewrite", "random_read", "random_write"]
    assert frame["contract"].to_list() == ["none", "none", None, "none"]
    assert frame["command"][0] == "iozone -t1 -i0 -i2 -r1k -s1g -F /tmp/testfile"
    assert frame["tool_version"][0] == "3.506"
    by_children = (frame["user_bytes"] / frame["elapsed_ns"] * 1e9 / 1024).round(2).to_list()
    assert by_children == [629524.62, 867051.62, 642434.19, 509545.06]
    by_parent = (frame["user_bytes"] / frame["outer_elapsed_ns"] * 1e9 / 1024).round(2).to_list()
    assert by_parent == [118304.28, 124656.09, 641290.14, 113220.12]


@needs_data
def test_beside_trials_a_disk_benchmark_is_their_ceiling_and_a_host_file_their_host(tmp_path):
    names = ["5_runs_gpu_local_storage_stress.csv", "disk_speeds", "system_info.txt"]
    sources = [read_source(f"{DATA}/{name}") for name in names]
    run = read_run(write_folder(sources, tmp_path / "run", HEAD))
    assert [target.label for target in run.targets] == ["local"]
    tops = phases(run).filter(pl.col("role") == "ceiling")
    assert tops["name"].to_list() == ["write", "rewrite", "random_read", "random_write"]
    assert run.host.memory.total_bytes == 30 << 30
    assert run.host_facts["tools"] == {"cedana": None, "criu": "4.2"}
    assert phases(run)["client_memory_bytes"].unique().to_list() == [30 << 30]
    assert "version of cedana" in (run.folder / "log.txt").read_text()


def test_an_iozone_log_that_ends_early_is_refused(bring):
    text = "Iozone: Performance Test of File I/O\nThroughput test with 1 process\n"
    assert "no throughput in it" in refused(bring, text)
    children = "Children see throughput for  1 initial writers \t=  1.5 kB/sec\n"
    assert "what each process writes" in refused(bring, text + children)
    parent = children.replace("Children see", "Parent sees")
    assert "no throughput of its children" in refused(bring, text + parent)


FIRES = {
    "5_runs_s3_gpu.csv": {"HC-01", "HC-09", "HC-11", "HC-17", "HC-18"},
    "5_runs_cedana_gpu.csv": {"HC-01", "HC-09", "HC-11", "HC-17", "HC-18"},
    "5_runs_gpu_local_storage_stress.csv": {"HC-01", "HC-09", "HC-11", "HC-17", "HC-18"},
    "3_runs_s3.csv": {"HC-01", "HC-09", "HC-11", "HC-17", "HC-18", "HC-20"},
    "disk_speeds": {"HC-01", "HC-02", "HC-03"},
}
OF_THE_STUDY = {"HC-01", "HC-02", "HC-03", "HC-09", "HC-11", "HC-17", "HC-18", "HC-20"}


@needs_data
@pytest.mark.parametrize("name", FIRES)
def test_the_checks_fire_on_the_right_files(name, tmp_path):
    folder = write_folder([read_source(f"{DATA}/{name}")], tmp_path / "run", HEAD)
    findings = {finding.id: finding for finding in analyse(folder).findings}
    fired = {key for key, finding in findings.items() if finding.verdict.fired}
    assert fired & OF_THE_STUDY == FIRES[name]
    if "HC-20" in fired:
        assert "24 trials of 60 did not run or are not in the files" in findings["HC-20"].evidence
        assert "none × 0" in findings["HC-20"].evidence
        assert "--resume" not in findings["HC-20"].fix


FACTS = (
    "=== System Information ===\nCPU(s): {cpus}\nMem:   {memory}\n=== Software Environment ===\n"
)


@pytest.mark.parametrize(
    ("cpus", "memory", "wanted"),
    [
        ("8", "30Gi", (8, 30 << 30)),
        ("9" * 400, "9" * 400 + "Gi", (None, None)),
        ("9" * 5000, "1.2.3Gi", (None, None)),
        ("many", "much", (None, None)),
    ],
)
def test_what_no_machine_has_is_not_known(cpus, memory, wanted):
    """Of the facts about the machine nothing is made up, and damage is no crash."""
    text = FACTS.format(cpus=cpus, memory=memory)
    host = read(Source(Path("system_info.txt"), text.encode())).found.host
    assert (host["cpu"]["logical"], host["memory"]["total_bytes"]) == wanted
