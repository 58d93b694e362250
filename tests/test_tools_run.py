"""Other tools really run on a directory, with our evidence around them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import foreign
from savemark.errors import SavemarkError
from savemark.places import Directory
from savemark.run import memory
from waiting import until

MIB = 1 << 20
SEQUENTIAL = {"workload": "sequential", "size": 8 * MIB, "queue_depth": 1, "payload": "random"}


def stand_in(folder, monkeypatch, name, text):
    """Put a program of that name first on PATH."""
    bin_ = folder / "bin"
    bin_.mkdir(exist_ok=True)
    program = bin_ / name
    program.write_text(f"#!{sys.executable}\n{text}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")


@pytest.mark.parametrize("tool", ["fio", "dd"])
def test_a_tool_writes_and_reads(place, tmp_path, tool):
    foreign.need(tool)
    for operation in ("write", "read"):
        trial = {**SEQUENTIAL, "tool": tool, "operation": operation}
        record = foreign.run(trial, place, tmp_path / "tools")
        phase = foreign.phases(record)[operation]
        assert phase["user_bytes"] == 8 * MIB
        assert phase["elapsed_ns"] > 0
        assert phase["cpu_user_ns"] + phase["cpu_system_ns"] > 0
        assert phase["machine"]["own_ns"] >= phase["cpu_user_ns"]
        assert record["conditions"]["mount"]["filesystem"] == record["path"]["filesystem"]
        assert phase["durable"] is (operation == "write")
        if operation == "write":
            assert phase["payload"]["entropy_bits"] > 7.5, "what it wrote is looked at"
        else:
            assert phase["cache"]["state"] == "cold" or not foreign.on(place)["direct"]
            assert phase["extents"]["bytes"] in (8 * MIB, 0)
        run = record["tool"]["runs"][0]
        assert (record["tool"]["name"], run["exit_status"]) == (tool, 0)
        assert any("savemark-data.bin" in word for word in run["command"])
        kept = tmp_path / run["file"]
        import hashlib

        assert hashlib.sha256(kept.read_bytes()).hexdigest() == run["sha256"]
    assert list(place.iterdir()) == [], "nothing is left"


def test_the_version_is_that_of_the_tool():
    foreign.need("fio")
    from savemark.tools.version import version

    said = subprocess.run(["fio", "--version"], capture_output=True, text=True, check=True)
    assert version("fio") == said.stdout.strip()


def test_fio_saves_and_restores_a_checkpoint(place, tmp_path):
    foreign.need("fio")
    trial = {"workload": "checkpoint", "tool": "fio", "size": 8 * MIB, "streams": 2}
    found = foreign.phases(foreign.run(trial, place, tmp_path / "tools"))
    assert list(found) == ["save", "restore"]
    assert {phase["user_bytes"] for phase in found.values()} == {8 * MIB}
    assert found["save"]["durable"]


def test_dd_copies_the_data_that_we_make(place, tmp_path, monkeypatch):
    foreign.need("dd")
    trial = {**SEQUENTIAL, "tool": "dd", "payload": "text", "seed": 3}
    phase = foreign.phases(foreign.run(trial, place, tmp_path / "tools"))["write"]
    assert 3 < phase["payload"]["entropy_bits"] < 5.5


@pytest.mark.parametrize("name", ["ior", "elbencho", "iozone"])
def test_the_others_run_where_they_are(place, tmp_path, name):
    foreign.need(name)
    trial = {**SEQUENTIAL, "tool": name, "sync": "none", "operation": "write"}
    assert foreign.phases(foreign.run(trial, place, tmp_path / "tools"))["write"]["elapsed_ns"] > 0
    trial = {**SEQUENTIAL, "tool": name, "operation": "read"}
    phase = foreign.phases(foreign.run(trial, place, tmp_path / "tools"))["read"]
    assert phase["user_bytes"] == 8 * MIB


@pytest.mark.parametrize("workload", ["shared_file", "file_per_process"])
@pytest.mark.parametrize("name", ["ior", "elbencho"])
def test_iors_geometry_runs_through_others(place, tmp_path, name, workload):
    foreign.need(name)
    trial = {"workload": workload, "tool": name, "payload": "random", "workers": 2, "reorder": 0}
    trial |= {"block_size": 2 * MIB, "segments": 1, "sync": "none"}
    found = foreign.phases(foreign.run(trial, place, tmp_path / "tools"))
    assert list(found) == ["write", "read"]
    for phase in found.values():
        assert (phase["user_bytes"], phase["operations"]) == (4 * MIB, 4)
        assert 0 < phase["first_done_bytes"] <= 4 * MIB
    assert found["write"]["payload"]["entropy_bits"] > 7.5, "the files have the names we think of"
    assert found["read"]["extents"]["bytes"] in (4 * MIB, 0)
    assert found["read"]["cache"]["total_pages"] == 1024, "all files are dropped before"
    assert list(place.iterdir()) == [], "nothing is left"


def test_a_stonewall_of_ior_reads_no_more_than_it_wrote(place, tmp_path):
    foreign.need("ior")
    trial = {"workload": "file_per_process", "tool": "ior", "payload": "random", "workers": 2}
    trial |= {"reorder": 0, "block_size": 8 * MIB, "segments": 1000, "sync": "none"}
    trial |= {"phase_deadline": "1s", "wear_out": True}
    found = foreign.phases(foreign.run(trial, place, tmp_path / "tools"))
    assert 0 < found["write"]["operations"] < 16_000, "it was ended"
    assert 0 < found["read"]["operations"] <= found["write"]["operations"]


@pytest.mark.parametrize("name", ["mdtest", "elbencho"])
def test_names_are_made_looked_at_and_removed(place, tmp_path, name):
    foreign.need(name)
    trial = {"workload": "metadata", "tool": name, "items": 200, "file_size": 100}
    trial |= {"payload": "random"}
    found = foreign.phases(foreign.run(trial, place, tmp_path / "tools"))
    assert list(found) == ["create", "stat", "read", "remove"]
    assert {phase["operations"] for phase in found.values()} == {200}
    ends = [(phase["first_done_ns"], phase["last_done_ns"]) for phase in found.values()]
    assert all(0 < first <= last for first, last in ends)


MDTEST = """
import sys
path = next(word.split("=", 1)[1] for word in sys.argv if word.startswith("--saveRank"))
names = [f"File {{each}}" for each in ("creation", "stat", "read", "removal")]
columns = ["rank", "items", *(f"{{what}}-{{name}}" for name in names for what in ("rate", "time"))]
rows = [columns, ["all", "50", *["500", "0.1"] * 4], ["0", "", *["625", "0.08"] * 4]]
open(path, "w").write("\\n".join(",".join(row) for row in rows))
"""


def test_the_end_of_each_rank_is_known_and_not_how_far_the_others_were(
    place, tmp_path, monkeypatch
):
    stand_in(tmp_path, monkeypatch, "mdtest", MDTEST.format())
    trial = {"workload": "metadata", "tool": "mdtest", "items": 50, "payload": "random"}
    found = foreign.phases(foreign.run(trial, place, tmp_path / "tools"))
    assert list(found) == ["create", "stat", "read", "remove"]
    for phase in found.values():
        assert (phase["elapsed_ns"], phase["operations"]) == (100_000_000, 50)
        assert (phase["first_done_ns"], phase["last_done_ns"]) == (80_000_000, 80_000_000)
        assert phase["first_done_bytes"] is None


def test_a_time_that_a_tool_rounds_to_nothing_is_that_of_its_process(place, tmp_path, monkeypatch):
    said = '{"fio version": "fio-3.33", "jobs": [{"jobname": "x", "write": {"io_bytes": 8388608, '
    said += '"total_ios": 8, "runtime": 0}}]}'
    stand_in(tmp_path, monkeypatch, "fio", SAYS.format(said=said))
    record = foreign.run({**SEQUENTIAL, "tool": "fio"}, place, tmp_path / "tools")
    phase = foreign.phases(record)["write"]
    assert phase["elapsed_ns"] == phase["last_done_ns"] > 1_000_000
    assert phase["notes"] == ["the time is that of the process, from its start to its end"]


FAILS = "import sys; print('first'); print('no such luck', file=sys.stderr); sys.exit(3)"


def test_a_tool_that_fails_says_why(place, tmp_path, monkeypatch):
    stand_in(tmp_path, monkeypatch, "dd", FAILS)
    with pytest.raises(SavemarkError) as error:
        foreign.run({**SEQUENTIAL, "tool": "dd"}, place, tmp_path / "tools")
    assert error.value.message == "dd ended with status 3: no such luck"
    assert Path(error.value.hint.split()[-1]).read_text() == "no such luck\n"
    assert list(place.iterdir()) == []


def test_a_tool_that_is_killed_says_by_what(place, tmp_path, monkeypatch):
    stand_in(tmp_path, monkeypatch, "dd", "import os; os.kill(os.getpid(), 9)")
    with pytest.raises(SavemarkError, match="dd was killed by signal 9: it said nothing"):
        foreign.run({**SEQUENTIAL, "tool": "dd"}, place, tmp_path / "tools")


def test_a_tool_that_is_not_there_is_named(place, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SavemarkError) as error:
        foreign.run({**SEQUENTIAL, "tool": "dd"}, place, tmp_path / "tools")
    assert (error.value.kind, "dd cannot be started" in error.value.message) == ("usage", True)


SAYS = """
import json, sys
out = next(word.split("=", 1)[1] for word in sys.argv if word.startswith("--output="))
said = {said!r}
if said: open(out, "w").write(said)
"""


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "fio ended well and reported nothing"),
        ('{"fio version": "fio-3.33", "jobs": [{"jobname": "x", "read": {"io_bytes": 4096, '
         '"total_ios": 1, "runtime": 5}}]}', "nothing of write"),
        ('{"fio version": "fio-3.33", "jobs": [{"jobname": "x", "error": 5, "write": {"io_bytes": '
         '4096, "total_ios": 1, "runtime": 5}}]}', "fio: error 5"),
    ],
)  # fmt: skip
def test_a_report_that_is_no_result_is_a_failure(place, tmp_path, monkeypatch, said, why):
    stand_in(tmp_path, monkeypatch, "fio", SAYS.format(said=said))
    with pytest.raises(SavemarkError) as error:
        foreign.run({**SEQUENTIAL, "tool": "fio"}, place, tmp_path / "tools")
    assert (error.value.kind, why in error.value.message) == ("failed", True), error.value.message


def test_a_state_too_large_for_memory_is_refused(place, tmp_path, monkeypatch):
    found = os.statvfs_result([4096, 4096, 10, 1, 1, 0, 0, 0, 0, 255])
    monkeypatch.setattr(memory.os, "statvfs", lambda path: found)
    with pytest.raises(SavemarkError) as error:
        foreign.run({**SEQUENTIAL, "tool": "dd"}, place, tmp_path / "tools")
    assert (error.value.kind, "/dev/shm" in error.value.hint) == ("refused", True)


@pytest.fixture
def savemark(to_its_end):
    return to_its_end


STUDY = """
name: both
budget: 1m
repeats: 1
trial: {{workload: sequential, storage: posix, direct: {direct}, size: 8m, queue_depth: 1}}
factors:
  tool: [savemark, dd]
"""


@pytest.fixture
def study(tmp_path, place):
    file = tmp_path / "both.yaml"
    file.write_text(STUDY.format(direct=str(foreign.on(place)["direct"]).lower()))
    return file


def test_one_table_ranks_the_engine_and_the_tools(savemark, study, place, tmp_path):
    foreign.need("fio", "dd")
    done = savemark("run", study, place, "--tool", "savemark,fio,dd", "--out", "out")
    assert done.returncode == 0, done.stderr
    for tool in ("savemark", "fio", "dd"):
        assert f"tool {tool}" in done.stdout
    lines = [json.loads(line) for line in (tmp_path / "out/records.jsonl").read_text().splitlines()]
    assert {line["record"]["trial"].get("tool", "savemark") for line in lines} == {
        "savemark",
        "fio",
        "dd",
    }
    phases = (tmp_path / "out/tables/phases.csv").read_text()
    assert "dd (coreutils)" in phases, "its version and command line are data"
    assert "conv=notrunc,fsync" in phases


def test_what_cannot_be_is_refused_before_anything_is_written(savemark, study, place, tmp_path):
    done = savemark("run", study, place, "--tool", "savemark,dd", "--workers", "2", "--out", "out")
    assert done.returncode == 2
    assert "dd cannot express workers=2" in done.stderr
    assert "both.yaml" in done.stderr
    assert not (tmp_path / "out").exists()
    assert not list(place.iterdir())


def test_a_tool_that_fails_is_a_failed_trial(start, study, place, tmp_path, monkeypatch):
    stand_in(tmp_path, monkeypatch, "dd", FAILS)
    process = start("run", study, place, "--out", "out")
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1, err
    lines = [json.loads(line) for line in (tmp_path / "out/records.jsonl").read_text().splitlines()]
    failed = [line for line in lines if line["status"] == "failed"]
    assert [line["factors"]["tool"] for line in failed] == ["dd"]
    assert "no such luck" in failed[0]["error"]["message"]


SLEEPS = """
import os, time
open({mark!r}, "w").write(str(os.getpid()))
time.sleep(600)
"""


def left_in_memory():
    return {folder.path for folder in Directory(memory.PLACE).stale()}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_process_outlives_a_run(start, study, place, tmp_path, monkeypatch, number):
    mark, before = tmp_path / "pid", left_in_memory()
    stand_in(tmp_path, monkeypatch, "dd", SLEEPS.format(mark=str(mark)))
    process = start("run", study, place, "--out", "out", "--tool", "dd")

    def begun():
        assert process.poll() is None, process.stderr.read()
        return mark.exists() and mark.read_text()

    pid = int(until(begun))
    process.send_signal(number)
    process.communicate(timeout=300)
    until(lambda: not Path(f"/proc/{pid}").exists() or "Z" in _state(pid))
    left = [path for path in left_in_memory() - before if "-tool-" in path.name]
    assert len(left) == (number == signal.SIGKILL)
    with memory.folder() as made:
        assert Directory(made).owner().alive
        assert not any(path.exists() for path in left), "the next trial gives back what was left"
    assert not Path(made).exists()


def _state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"
