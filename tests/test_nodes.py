"""Four nodes on one machine: apart, linked at a stated rate, and gone at the end."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nodes import Nodes, ip, nodes, require  # noqa: F401  (a fixture)
from waiting import records, until

# Says where each rank is, and how long 8 MiB take to all others.
HELLO = """
import json, os, socket, time
from mpi4py import MPI
world, data = MPI.COMM_WORLD, bytearray(8 << 20)
where = world.allgather((socket.gethostname(), os.readlink("/proc/self/ns/net")))
world.Barrier()
began = time.monotonic()
world.Bcast(data)
world.Barrier()
if world.rank == 0:
    print(json.dumps({"where": where, "seconds": time.monotonic() - began}), flush=True)
"""
SLEEP = """
import time
from mpi4py import MPI
MPI.COMM_WORLD.Barrier()
if MPI.COMM_WORLD.rank == 0:
    print("all here", flush=True)
time.sleep(3600)
"""


@pytest.mark.parametrize("kind", ["openmpi", "mpich"])
def test_ranks_on_four_nodes_meet_over_links_of_the_stated_rate(tmp_path, kind):
    require(kind)
    made = Nodes(tmp_path, rate="400mbit")
    try:
        made.begin()
        (tmp_path / "hello.py").write_text(HELLO)
        job = made.mpi(kind, 8, sys.executable, tmp_path / "hello.py")
        out = made.ended(job)
    finally:
        made.end()
    assert job.returncode == 0, out
    told = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
    spaces = {}
    for node, space in told["where"]:
        spaces.setdefault(node, []).append(space)
    assert {node: len(ranks) for node, ranks in spaces.items()} == dict.fromkeys(made.names, 2)
    assert len({space for ranks in spaces.values() for space in ranks}) == 4
    assert str(Path("/proc/self/ns/net").readlink()) not in {space for _, space in told["where"]}
    assert told["seconds"] > (8 << 20) / (400e6 / 8), "no link is faster than its bucket"


def test_a_node_that_is_gone_ends_the_job_of_all(nodes, tmp_path):  # noqa: F811
    (tmp_path / "sleep.py").write_text(SLEEP)
    job = nodes.mpi("openmpi", 4, sys.executable, tmp_path / "sleep.py")
    until(lambda: "all here" in job.said.read_text())
    nodes.kill("node2")
    assert nodes.processes("node2") == []
    out = nodes.ended(job)
    assert job.returncode != 0
    assert "node2" in out, "the launcher says which"


def devices():
    return {path.name for path in Path("/sys/class/net").iterdir()}


def test_everything_is_removed_even_after_a_failure(tmp_path):
    require("openmpi")
    made = Nodes(tmp_path, count=2)
    before = devices()
    try:
        made.begin()
        sleeping = made.start("node1", "sleep", "3600")
        until(lambda: made.processes("node1"))
        assert "10.77.0.2" in ip("-n", made.namespace("node1"), "addr").stdout
        raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    finally:
        made.end()
    assert sleeping.returncode in (-signal.SIGKILL, 137)
    assert made.prefix not in ip("netns", "list").stdout
    assert devices() == before, "the host's own network is as it was"


def test_a_namespace_that_exists_already_leaves_nothing_behind(tmp_path):
    require("openmpi")
    made = Nodes(tmp_path, count=2)
    ip("netns", "add", made.namespace("node1"))
    try:
        with pytest.raises(subprocess.CalledProcessError):
            made.begin()
    finally:
        made.end()
    assert made.prefix not in ip("netns", "list").stdout


STUDY = """\
name: small
repeats: 6
defaults: {storage: posix, direct: false}
trial: {workload: random, operation: write, size: 1m, transfer_size: 4k, duration: 2s}
"""


@pytest.mark.parametrize("kind", ["openmpi", "mpich"])
def test_a_run_whose_node_dies_ends_with_its_name_and_resumes(tmp_path, kind):
    require(kind)
    (tmp_path / "small.yaml").write_text(STUDY)
    place = tmp_path / "place"
    place.mkdir()

    def finished():
        return records(tmp_path / "run")

    def start(*words, **env):
        command = (sys.executable, "-X", "faulthandler", "-m", "savemark", "run", *words)
        return made.mpi(kind, 8, *command, cwd=tmp_path, env=env)

    made = Nodes(tmp_path)
    try:
        made.begin()
        job = start("./small.yaml", "./place", "--out", "run", SAVEMARK_PATIENCE="20")
        until(lambda: finished() or job.poll() is not None)
        time.sleep(1)  # into the middle of the next phase
        made.kill("node2")
        out = made.ended(job)
        assert job.returncode != 0, out
        assert "node2" in out, "who is gone is named, by us or by the launcher"
        kept = finished()
        assert 1 <= len(kept) < 6
        made.repair("node2")
        job = start("--resume", "run")
        out = made.ended(job)
        assert job.returncode == 0, out
    finally:
        made.end()
    assert finished()[: len(kept)] == kept
    assert sorted(line["index"] for line in finished()) == list(range(6)), out
    assert {line["status"] for line in finished()} == {"ok"}
    for line in finished():
        assert line["record"]["trial"]["ranks"] == 8
        (write,) = [p for p in line["record"]["phases"] if p["name"] == "write"]
        assert write["ranks"]["node"] == [0, 0, 1, 1, 2, 2, 3, 3]
    head = json.loads((tmp_path / "run" / "run.json").read_text())
    assert [node["node"] for node in head["ranks"]["nodes"]] == made.names
    assert list(place.iterdir()) == []
