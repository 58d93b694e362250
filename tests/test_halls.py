"""The memory in which the ranks of a node meet, between real processes."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launchers import LAUNCHERS
from savemark import _engine

# Joins the hall whose address is its first argument, meets once, and then does as it is told.
OTHER = """
import json, os, signal, sys
from savemark import _engine

class Crew:
    def late(self, limit_s): print("late", flush=True)

hall = _engine.Hall.join(tuple(json.loads(sys.argv[1])), int(sys.argv[2]), 3, 3, 1)
hall.begin(3, 300.0, 0.0, False, Crew())
print(hall.meet("here", [int(sys.argv[2])], None, None), flush=True)
how = sys.stdin.readline().strip()
if how in ("SIGKILL", "SIGSTOP"):
    os.kill(os.getpid(), getattr(signal, how))
print(hall.meet("there", [int(sys.argv[2])], None, None), flush=True)
"""


class Crew:
    """Notes what a hall tells."""

    def __init__(self):
        self.lates = []

    def late(self, limit_s):
        self.lates.append(limit_s)


@pytest.fixture
def others():
    """Two other ranks of a hall, and the hall seen from the first."""
    hall = _engine.Hall(3, 3, 1)
    address = json.dumps(hall.address())
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [
        subprocess.Popen([sys.executable, "-c", OTHER, address, str(seat)], **pipes)
        for seat in (1, 2)
    ]
    yield hall, started
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("how", ["SIGKILL", "SIGSTOP"])
def test_who_does_not_come_is_waited_for_no_longer_than_allowed(others, how):
    hall, processes = others
    crew = Crew()
    hall.begin(3, 300.0, 0.0, False, crew)
    assert hall.meet("here", [0], None, None) == [0, 1, 2]
    assert all(process.stdout.readline() == "[0, 1, 2]\n" for process in processes)
    for process, told in zip(processes, ("go", how), strict=True):
        process.stdin.write(told + "\n")
        process.stdin.flush()
    hall.begin(3, 0.5, 0.0, False, crew)
    with pytest.raises(_engine.EngineError, match="interrupted"):
        hall.meet("there", [0], None, None)
    assert crew.lates == [0.5] and hall.place() == "waiting at there"


def test_nothing_of_it_is_left_however_its_ranks_end(others):
    hall, processes = others
    pid, file, name = hall.address()
    opened = Path(f"/proc/self/fd/{file}").readlink()
    assert pid == os.getpid() and str(opened) == f"/memfd:{name} (deleted)"
    crew = Crew()
    hall.begin(3, 300.0, 0.0, False, crew)
    hall.meet("here", [0], None, None)
    for process in processes:
        process.kill()
        process.wait()
    del hall
    # It never had a name in a filesystem, and the last one who had it open has closed it.
    assert not list(Path("/dev/shm").glob(f"*{name}*"))


def test_a_process_that_has_no_such_memory_says_so():
    pid, file, _ = _engine.Hall(2, 2, 2).address()
    for address in ((pid, file, "savemark-0"), (2**31 - 2, 3, "savemark-0"), (pid, 0, "x")):
        with pytest.raises(OSError, match=r"."):
            _engine.Hall.join(address, 1, 2, 2, 2)


STUDY = """
name: small
trial: {workload: file_per_process, storage: posix, direct: false, block_size: 4KiB, segments: 1,
        transfer_size: 4KiB, sync: none, cache: warm}
checks: {HC-13: {block_below: 0}}
repeats: 3
"""


@pytest.mark.parametrize("kind", LAUNCHERS)
@pytest.mark.parametrize("meet", ["memory", "messages"])
def test_a_run_says_by_what_its_ranks_meet(kind, meet, tmp_path, place):
    (tmp_path / "study.yaml").write_text(STUDY)
    words = ["run", tmp_path / "study.yaml", place, "--out", "out"]
    told = {"SAVEMARK_MEET": "messages"} if meet == "messages" else {}
    done = LAUNCHERS[kind]().run(tmp_path, (3, [], words), **told)
    assert done.returncode == 0, done.stderr
    head = json.loads((tmp_path / "out" / "run.json").read_text())
    assert head["ranks"]["meet"] == meet
    lines = (tmp_path / "out" / "records.jsonl").read_text().splitlines()
    for line in map(json.loads, lines):
        assert line["status"] == "ok"
        assert all(len(p["ranks"]["started_ns"]) == 3 for p in line["record"]["phases"])


def test_more_ranks_than_processors_sleep_instead_of_looking(tmp_path):
    # While one is late, the others do not burn the processor.
    hall = _engine.Hall(2, 2, 1)
    address = json.dumps(hall.address())
    late = f"""
import json, time
from savemark import _engine
hall = _engine.Hall.join(tuple({address}), 1, 2, 2, 1)
print("here", flush=True)
time.sleep(1)
hall.begin(2, 300.0, 0.0, False, None)
hall.meet("here", [], None, None)
"""
    process = subprocess.Popen([sys.executable, "-c", late], stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    hall.begin(2, 300.0, 0.0, False, Crew())
    used, began = time.process_time(), time.monotonic()
    assert hall.meet("here", [], None, None) == []
    assert time.process_time() - used < 0.5 * (time.monotonic() - began)
    assert process.wait() == 0
    process.stdout.close()
