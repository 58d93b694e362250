"""A signal around the commit of a save: the exit code says what is there, never something else."""

import os
import signal
import subprocess
import sys
import time

import pytest

from live_program import Program, needs_criu
from waiting import LIMIT_S

# The first thing after the engine's part, and the last: a signal there is too late.
LATE = """
import os, signal, sys
import savemark.cli
from savemark.checkpoint import transfer
from savemark.cli import save

number = getattr(signal, sys.argv[1])
module, name = {"report": (transfer, "report"), "show": (save, "show")}[sys.argv[2]]
real = getattr(module, name)

def late(*words):
    done = real(*words)
    os.kill(os.getpid(), number)
    return done

setattr(module, name, late)
del sys.argv[1:3]
savemark.cli.main()
"""


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "file").write_bytes(os.urandom(100_000))
    return folder


@pytest.mark.parametrize("where", ["report", "show"])
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_what_is_complete_cannot_be_interrupted(tmp_path, source, number, where):
    done = subprocess.run(
        [sys.executable, "-c", LATE, number, where, "save", source, "ck", "--keep", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "durable" in done.stdout
    assert "the interrupt came too late" in done.stderr


def start(tmp_path, *words):
    return subprocess.Popen(
        [sys.executable, "-m", "savemark", *map(str, words)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stopped_at(tmp_path, delay_s, number, *words):
    """Run the command, with a signal after a while; return its exit code and what it said."""
    process = start(tmp_path, *words)
    time.sleep(delay_s)
    process.send_signal(number)
    _, told = process.communicate(timeout=LIMIT_S)
    return process.returncode, told


def took_s(tmp_path, *words):
    began = time.monotonic()
    process = start(tmp_path, *words)
    _, told = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, told
    return time.monotonic() - began


def test_the_exit_code_of_a_save_says_whether_it_happened(tmp_path, source):
    words, turns = ("save", source, "ck"), int(os.environ.get("SAVEMARK_TEST_POINTS", "24"))
    delay_s = took_s(tmp_path, *words)
    manifest, kinds = tmp_path / "ck" / "manifest.json", set()
    for turn in range(turns):
        before = manifest.read_bytes()
        number = (signal.SIGINT, signal.SIGTERM)[turn % 2]
        code, told = stopped_at(tmp_path, delay_s, number, *words)
        replaced = manifest.read_bytes() != before
        delay_s *= (
            0.85 if replaced else 1.1
        )  # to the moment of the commit, however busy the machine
        assert (code == 0) == replaced, f"turn {turn}: exit {code}, replaced: {replaced}: {told}"
        kinds.add(replaced)
    assert kinds == {True, False}, "the test does not test"


def test_the_exit_code_of_a_saved_process_says_whether_it_was_killed(tmp_path):
    needs_criu()
    program = Program(tmp_path)
    words = ("save", "--pid", program.pid, "ck")
    whole_s = took_s(tmp_path, *words, "--leave-running")
    try:
        for turn in range(8):
            code, _ = stopped_at(tmp_path, whole_s * (0.5 + turn / 16), signal.SIGINT, *words)
            if code == 0:
                program.is_gone()
                took_s(tmp_path, "restore", "ck")
            program.goes_on()
    finally:
        program.end()
