"""Runs as processes: the run folder, failures, Ctrl-C, kill -9 and --resume."""

import json
import shutil
import signal

import pytest

from waiting import LIMIT_S, held, records

ALL = 12  # two settings and a ceiling, which has two forms, × three repeats: see STUDY
STUDY = """\
name: small
repeats: 3
defaults: {storage: posix, size: 16m}
ceilings:
  write: {workload: sequential, operation: write}
trial: {workload: checkpoint}
factors: {codec: [none, lz4]}
"""


@pytest.fixture
def small(tmp_path):
    (tmp_path / "small.yaml").write_text(STUDY)
    return "small.yaml"


def test_a_run_leaves_its_folder_and_nothing_else(savemark, small, place, tmp_path):
    done = savemark("run", small, place, "--out", "out")
    assert done.returncode == 0, done.stderr
    head = json.loads((tmp_path / "out" / "run.json").read_text())
    lines = records(tmp_path / "out")
    assert sorted(line["index"] for line in lines) == list(range(ALL))
    assert len(head["plan"]) == ALL
    assert head["schema"] == 1
    assert head["study"]["defaults"]["size"] == 16 << 20
    facts = {"filesystem": "ext4", "disk": {"name": "nvme0n1"}}
    assert head["targets"] == [{"label": str(place), "target": str(place), "facts": facts}]
    for line, planned in zip(lines, head["plan"], strict=True):
        assert {key: line[key] for key in planned} == planned
        assert line["status"] == "ok"
        assert line["error"] is None
        assert line["record"]["phases"]
    assert (tmp_path / "out" / "log.txt").read_text().count("ok") == ALL
    assert not list(place.iterdir())
    assert "the table" in done.stdout
    assert done.stderr.startswith(f"small · {place} (ext4 on nvme0n1, ")
    assert "leaves nothing" in done.stderr.splitlines()[0]
    assert "\x1b" not in done.stderr, "no bar and no colours where nobody watches"
    assert done.stderr.splitlines()[1].startswith("ceilings    write")


def test_the_default_folder_is_named_by_time_and_study(savemark, small, place, tmp_path):
    assert savemark("run", small, place).returncode == 0
    (found,) = (tmp_path / "savemark-runs").iterdir()
    assert found.name.endswith("-small")
    assert ":" not in found.name


def test_an_out_folder_with_content_is_refused(savemark, small, place, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("precious")
    done = savemark("run", small, place, "--out", "out")
    assert done.returncode == 2
    assert "out is not empty" in done.stderr
    assert not list(place.iterdir())


def test_kill_9_loses_at_most_the_trial_in_flight_and_resume_finishes(
    savemark, small, place, tmp_path
):
    run_dir = tmp_path / "out"
    process = savemark.popen("run", small, place, "--out", "out", FAKE_HOLD="3")
    held(run_dir, place, 3)
    process.kill()
    process.communicate()
    kept = records(run_dir)
    (left,) = place.iterdir()
    assert left.name.startswith("savemark-")

    # The machine may also have died in the middle of a write.
    with (run_dir / "records.jsonl").open("a") as file:
        file.write('{"index": 8, "stat')
    done = savemark("run", "--resume", "out")
    assert done.returncode == 0, done.stderr
    assert f"removed {left}" in done.stderr
    lines = records(run_dir)
    assert lines[: len(kept)] == kept, "finished trials are untouched"
    assert sorted(line["index"] for line in lines) == list(range(ALL))
    assert not list(place.iterdir())


def test_a_finished_run_resumes_to_its_report(savemark, small, place, tmp_path):
    savemark("run", small, place, "--out", "out")
    before = (tmp_path / "out" / "records.jsonl").read_bytes()
    done = savemark("run", "--resume", "out")
    assert done.returncode == 0
    assert "the table" in done.stdout
    assert (tmp_path / "out" / "records.jsonl").read_bytes() == before


def test_resume_refuses_another_study_or_target(savemark, small, place, tmp_path):
    savemark("run", small, place, "--out", "out", "--size", "16m")
    same = savemark("run", small, place, "--resume", "out", "--size", "16MiB")
    assert same.returncode == 0, same.stderr
    for words in (["--size", "32m"], ["--codec", "zstd"], ["quick"], ["--repeats", "2"]):
        other = savemark("run", *words, "--resume", "out")
        assert other.returncode == 2
        assert "the study has changed" in other.stderr
    (tmp_path / "elsewhere").mkdir()
    other = savemark("run", "elsewhere", "--resume", "out")
    assert other.returncode == 2
    assert f"this run measures {place}" in other.stderr
    assert savemark("run", "--resume", "elsewhere").returncode == 2


def test_a_folder_that_is_being_written_and_a_place_in_use_are_refused(
    savemark, small, place, tmp_path
):
    process = savemark.popen("run", small, place, "--out", "out", FAKE_HOLD="1")
    held(tmp_path / "out", place, 1)
    second = savemark("run", "--resume", "out")
    assert second.returncode == 2
    assert "is writing" in second.stderr
    third = savemark("run", small, place, "--out", "other")
    assert third.returncode == 5
    assert f"pid {process.pid}" in third.stderr
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 130


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(savemark, small, place, tmp_path):
    process = savemark.popen("run", small, place, "--out", "out", FAKE_HOLD="2")
    held(tmp_path / "out", place, 2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert "hint: savemark run --resume out" in err
    assert len(records(tmp_path / "out")) == 2
    assert not list(place.iterdir())
    assert savemark("run", "--resume", "out").returncode == 0
    assert len(records(tmp_path / "out")) == ALL


def errors(**by_word):
    return json.dumps(by_word)


def test_a_failed_trial_is_recorded_and_the_run_goes_on(savemark, small, place, tmp_path):
    bad = errors(lz4=["failed", "cannot write /x: no room", "free some space"])
    done = savemark("run", small, place, "--out", "out", "--size", "16m", FAKE_ERRORS_RUN=bad)
    lines = records(tmp_path / "out")
    failed = [line for line in lines if line["status"] == "failed"]
    assert done.returncode == 1
    assert len(lines) == ALL
    assert len(failed) == 3
    assert failed[0]["error"]["hint"] == "free some space"
    assert failed[0]["record"] is None
    assert "3 trials failed" in done.stderr

    again = savemark("run", "--resume", "out")
    assert again.returncode == 0, "the cause is gone: what failed is run again"
    assert len(records(tmp_path / "out")) == ALL + 3


def test_three_equal_failures_in_a_row_stop_the_run(savemark, small, place, tmp_path):
    # The fake engine adds the trial's file, as the real one does: no two messages are equal.
    bad = errors(checkpoint=["failed", "no room: {}"], sequential=["failed", "no room: {}"])
    done = savemark("run", small, place, "--out", "out", FAKE_ERRORS_RUN=bad)
    assert done.returncode == 1
    assert "3 trials in a row failed: no room: /" in done.stderr
    assert len(records(tmp_path / "out")) == 3
    assert "savemark run --resume out" in done.stderr
    assert not list(place.iterdir())


def test_corrupt_data_is_recorded_and_decides_the_exit_code(savemark, small, place, tmp_path):
    # Each once in a block: never three in a row, which would stop the run, in whatever order.
    bad = errors(lz4=["corrupt", "shard-0: chunk at 4096 is wrong"], none=["failed", "x"])
    done = savemark("run", small, place, "--out", "out", FAKE_ERRORS_RUN=bad)
    assert done.returncode == 4
    assert len(records(tmp_path / "out")) == ALL
    again = savemark("run", "--resume", "out")
    assert again.returncode == 0
    still = [x for x in records(tmp_path / "out") if (x["error"] or {}).get("kind") == "corrupt"]
    assert len(still) == 3, "corruption is a finding; it is not run away"


@pytest.mark.parametrize(("kind", "code"), [("refused", 5), ("usage", 2)])
def test_a_refusal_stops_the_run_before_anything_is_kept(
    savemark, small, place, tmp_path, kind, code
):
    bad = errors(checkpoint=[kind, "O_DIRECT is refused here", "--no-direct"])
    done = savemark("run", small, place, "--out", "out", FAKE_ERRORS=bad)
    assert done.returncode == code
    assert "error: O_DIRECT is refused here\nhint: --no-direct" in done.stderr
    assert not (tmp_path / "out").exists()
    assert not list(place.iterdir())


def test_a_damaged_folder_is_refused(savemark, small, place, tmp_path):
    savemark("run", small, place, "--out", "out")
    file = tmp_path / "out" / "records.jsonl"
    file.write_bytes(b"garbage\n" + file.read_bytes())
    done = savemark("run", "--resume", "out")
    assert done.returncode == 2
    assert "records.jsonl:1" in done.stderr
    shutil.rmtree(tmp_path / "out")
    assert "not a run folder" in savemark("run", "--resume", "out").stderr
