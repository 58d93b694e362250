"""`savemark run` under mpirun, as people start it: with Open MPI and with MPICH."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from launchers import COMMAND, LAUNCHERS, ended
from waiting import records, until

STUDY = """
name: together
trial: {storage: posix, direct: false}
checks: {HC-13: {seconds: 0}}
repeats: 1
parts:
  shared:
    trial: {workload: shared_file, block_size: 128KiB, segments: 2, transfer_size: 64KiB,
            verify: true}
  each:
    trial: {workload: file_per_process, block_size: 128KiB, segments: 2, transfer_size: 64KiB,
            verify: true}
  blocks:
    trial: {workload: sequential, operation: read, queue_depth: 1, size: 1MiB,
            transfer_size: 64KiB}
  names: {trial: {workload: metadata, items: 64, file_size: 100, neighbour: true}}
  state: {trial: {workload: checkpoint, streams: 2, codec: lz4, size: 1MiB}}
"""
FILES = """
name: files
trial: {workload: file_per_process, storage: posix, direct: false, block_size: 8MiB, segments: 1,
        transfer_size: 64KiB}
repeats: 40
"""
# Loads what `savemark` loads, and says at its end what that was.
LISTING = """
import atexit, os, sys
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMI_RANK")
atexit.register(lambda: open(f"modules-{rank}", "w").write("\\n".join(sys.modules)))
from savemark.cli import main
main()
"""


@pytest.fixture(params=LAUNCHERS)
def mpi(request):
    return LAUNCHERS[request.param]()


@pytest.fixture
def openmpi():
    return LAUNCHERS["openmpi"]()


@pytest.fixture
def study(tmp_path):
    def study(text):
        path = tmp_path / "study.yaml"
        path.write_text(text)
        return path

    return study


def pids(folder):
    """Process ids by rank."""
    nodes = json.loads((folder / "run.json").read_text())["ranks"]["nodes"]
    return dict(pair for n in nodes for pair in zip(n["ranks"], n["pids"], strict=True))


def check_together(lines, ranks):
    """Every part did all of its work, and each rank its share."""
    whole = {"shared": 256 << 10, "each": 256 << 10, "blocks": None, "names": None, "state": None}
    for line in lines:
        part, record = line["factors"]["part"], line["record"]
        assert line["status"] == "ok", line["error"]
        phases = {phase["name"]: phase for phase in record["phases"]}
        last = phases[{"blocks": "read", "names": "read", "state": "restore"}.get(part, "read")]
        total = (whole[part] or 0) * ranks or {"names": 6400}.get(part, 1 << 20)
        assert last["user_bytes"] == total == sum(last["ranks"]["user_bytes"]), part
        assert last["operations"] == sum(last["ranks"]["operations"])
        assert last["ranks"]["of"] == ranks and last["worker_count"] % ranks == 0
        assert last["first_done_ns"] == min(last["ranks"]["first_done_ns"])
        assert last["last_done_ns"] == max(last["ranks"]["last_done_ns"])
        assert last["start_skew_ns"] == max(last["ranks"]["started_ns"])
        assert "histograms" not in last and last["latency"]["count"] == last["operations"]
        assert last["verified"] or part == "blocks"
        assert record["trial"]["ranks"] == ranks


@pytest.mark.parametrize("ranks", [2, 16])
def test_ranks_do_every_workload_together(mpi, ranks, study, tmp_path, place):
    words = ["run", study(STUDY), place, "--out", "out"]
    done = mpi.run(tmp_path, (ranks, [], words))
    assert done.returncode == 0, done.stderr
    lines = records(tmp_path / "out")
    assert len(lines) == 5
    check_together(lines, ranks)
    assert done.stderr.count("together ·") == 1, "one of them speaks"
    assert done.stdout.count("report  ") == 1
    assert not list(place.iterdir())
    assert sorted(pids(tmp_path / "out")) == list(range(ranks))


def test_a_trial_asks_for_some_of_the_ranks(mpi, study, tmp_path, place):
    text = FILES.replace("repeats: 40", "repeats: 1\nfactors: {ranks: [1, 2, 4]}")
    done = mpi.run(tmp_path, (4, [], ["run", study(text), place, "--out", "out"]))
    assert done.returncode == 0, done.stderr
    found = {
        line["factors"]["ranks"]: line["record"]["phases"] for line in records(tmp_path / "out")
    }
    for ranks, phases in found.items():
        assert all(phase["user_bytes"] == ranks * 8 << 20 for phase in phases)
        assert all(phase["ranks"]["of"] == ranks for phase in phases)


def test_nodes_are_told_apart_and_their_clocks_compared(mpi, study, tmp_path, place):
    text = FILES.replace("repeats: 40", "repeats: 1\nfactors: {nodes: [1, 2], ranks_per_node: [2]}")
    words = ["run", study(text), place, "--out", "out"]
    groups = [(2, ["env", f"SAVEMARK_NODE={name}"], words) for name in ("here", "there")]
    done = mpi.run(tmp_path, *groups)
    assert done.returncode == 0, done.stderr
    for line in records(tmp_path / "out"):
        record, nodes = line["record"], line["factors"]["nodes"]
        assert record["nodes"] == ["here", "there"][:nodes]
        for phase in record["phases"]:
            assert phase["nodes"]["ranks"] == [2] * nodes
            assert phase["ranks"]["node"] == [0, 0, 1, 1][: 2 * nodes]
            assert phase["machine"]["cpus"] == os.cpu_count(), "one machine plays both"
        for offset, error in record["clocks"]["before"] + record["clocks"]["after"]:
            # Both have one clock.
            assert abs(offset) <= error


def test_other_ranks_load_the_engine_alone(openmpi, study, tmp_path, place, monkeypatch):
    listing = tmp_path / "listing.py"
    listing.write_text(LISTING)
    monkeypatch.setattr("launchers.COMMAND", [sys.executable, str(listing)])
    done = openmpi.run(tmp_path, (2, [], ["run", study(STUDY), place, "--out", "out"]))
    assert done.returncode == 0, done.stderr
    first, other = [(tmp_path / f"modules-{rank}").read_text().split() for rank in (0, 1)]
    heavy = {"polars", "scipy", "altair", "numpy", "jinja2", "rich", "ruamel.yaml", "vl_convert"}
    assert "polars" in first
    assert "savemark._engine" in other and not heavy & set(other)


def test_a_rank_that_fails_is_named_and_the_study_goes_on(mpi, study, tmp_path, place):
    # One rank may not write files of more than 40 MiB; what MPI shares is smaller, as is metadata.
    text = """
name: unequal
trial: {storage: posix, direct: false}
checks: {HC-13: {seconds: 0}}
repeats: 1
order: listed
parts:
  large: {trial: {workload: file_per_process, block_size: 48MiB, segments: 1}}
  names: {trial: {workload: metadata, items: 64}}
"""
    words = ["run", study(text), place, "--out", "out"]
    done = mpi.run(tmp_path, (1, [], words), (1, ["prlimit", f"--fsize={40 << 20}"], words))
    assert done.returncode == 1, done.stderr
    large, names = records(tmp_path / "out")
    pid = pids(tmp_path / "out")[1]
    assert f"rank 1 on {os.uname().nodename} (pid {pid}): cannot write" in large["error"]["message"]
    assert "File too large" in large["error"]["message"] and large["error"]["kind"] == "failed"
    assert names["status"] == "ok"
    assert not list(place.iterdir())


@pytest.mark.parametrize("rank", [1, 0])
def test_a_rank_that_hangs_is_named_and_the_run_can_be_resumed(mpi, rank, study, tmp_path, place):
    words = ["run", study(FILES), place, "--out", "out"]
    process = mpi.popen(tmp_path, (3, [], words), SAVEMARK_PATIENCE="10")
    out = tmp_path / "out"
    until(lambda: records(out))
    os.kill(pids(out)[rank], signal.SIGSTOP)
    done = ended(process)
    assert done.returncode != 0
    # Which of both is seen first is chance: the limits are the same ten seconds.
    why = "gave no sign of life for 10 s|did not come within"
    assert re.search(rf"rank {rank} on .*({why})", done.stderr), done.stderr
    kept = len(records(out))
    assert 0 < kept < 40 and all(line["status"] == "ok" for line in records(out))
    if rank:
        assert "savemark run --resume out" in done.stderr
        assert not list(place.iterdir())
    again = mpi.run(tmp_path, (3, [], ["run", "--resume", out, "--json"]))
    assert again.returncode == 0, again.stderr
    assert sorted(line["index"] for line in records(out)) == list(range(40))
    assert not list(place.iterdir())


def test_the_end_of_the_first_rank_is_that_of_all(openmpi, study, tmp_path, place):
    process = openmpi.popen(tmp_path, (3, [], ["run", study(FILES), place, "--out", "out"]))
    out = tmp_path / "out"
    until(lambda: records(out))
    os.kill(pids(out)[0], signal.SIGTERM)
    done = ended(process)
    assert done.returncode != 0
    assert "interrupted;" in done.stderr and "--resume out" in done.stderr, done.stderr
    assert not list(place.iterdir())


def test_a_rank_that_is_killed_ends_the_run_which_can_be_resumed(mpi, study, tmp_path, place):
    words = ["run", study(FILES), place, "--out", "out"]
    process = mpi.popen(tmp_path, (3, [], words))
    out = tmp_path / "out"
    until(lambda: records(out))
    pid = pids(out)[2]
    os.kill(pid, signal.SIGKILL)
    done = ended(process)
    # The launcher ends the others, and names the one that died.
    said = done.stdout + done.stderr
    assert done.returncode != 0 and ("rank 2" in said or "BAD TERMINATION" in said), said
    assert 0 < len(records(out)) < 40
    fewer = mpi.run(tmp_path, (2, [], ["run", "--resume", out]))
    assert fewer.returncode == 2 and "began with 3 ranks" in fewer.stderr
    again = mpi.run(tmp_path, (3, [], ["run", "--resume", out]))
    assert again.returncode == 0, again.stderr
    assert sorted(line["index"] for line in records(out)) == list(range(40))
    assert not list(place.iterdir())


def test_what_ranks_cannot_run_is_said_once(openmpi, study, tmp_path, place):
    for words, why in (
        (["run", "quick", place, "--ranks", "5"], "asks for 5 ranks, and 2 on 1 node"),
        (["run", "quick", place, "--nodes", "2"], "asks for 2 nodes"),
        (["run", "quick", place, "--tool", "fio"], "fio starts ranks of its own"),
        (["run", "quick", place, "--ranks", "0"], "ranks: 0"),
        (["run", "quick", place, "--no-such"], "--no-such"),
        (["run", "quick", tmp_path / "nowhere"], "does not exist"),
        (["crosscheck", place], "runs in one process"),
    ):
        done = openmpi.run(tmp_path, (2, [], words))
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("error:") == 1 and why in done.stderr, done.stderr
    assert not list(place.iterdir())


def alone(tmp_path, *words, **environment):
    return subprocess.run(
        [*COMMAND, *map(str, words)],
        cwd=tmp_path,
        check=False,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_without_mpi4py_nothing_runs_several_times(tmp_path, place):
    (tmp_path / "mpi4py.py").write_text("raise ModuleNotFoundError(name='mpi4py')")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    for rank, said in ((0, 1), (1, 0)):
        for started in (
            {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": str(rank)},
            {"PMI_SIZE": "2", "PMI_RANK": str(rank)},
            {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": str(rank)},
        ):
            done = alone(tmp_path, "run", place, PYTHONPATH=path, **started)
            assert done.returncode == 2
            assert done.stderr.count("pip install mpi4py") == said, done.stderr
    assert not list(place.iterdir())
    # One process needs no MPI.
    done = alone(tmp_path, "run", place, "--dry-run", PYTHONPATH=path, OMPI_COMM_WORLD_SIZE="1")
    assert done.returncode == 0, done.stderr


def test_ranks_without_a_launcher_say_how_to_start_them(tmp_path, place):
    done = alone(tmp_path, "run", "quick", place, "--ranks", "4")
    assert done.returncode == 2 and "mpirun -n 4 savemark run" in done.stderr, done.stderr


def test_another_mpi_than_the_launchers_is_found_out(openmpi, tmp_path, place):
    # As if MPICH had started it: its library would see the others, Open MPI's sees itself.
    started = {"PMI_SIZE": "2", "PMI_RANK": "0", "MPI4PY_LIBMPI": "libmpi.so.40"}
    done = alone(tmp_path, "run", place, **openmpi.environment, **started)
    assert done.returncode == 2 and "mpi4py sees 1" in done.stderr, done.stderr
    broken = {**started, "MPI4PY_LIBMPI": "/no/such/libmpi.so"}
    done = alone(tmp_path, "run", place, **broken)
    assert done.returncode == 2 and "cannot load" in done.stderr, done.stderr
    assert not list(place.iterdir())
