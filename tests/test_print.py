"""Colours and cursors are for a terminal that somebody looks at."""

import os
import pty
import subprocess
import sys

import pytest

from made_run import Made, make_run

ESCAPE = "\x1b"


@pytest.fixture
def folder(tmp_path):
    return make_run(tmp_path / "a", Made(codecs=("none", "zstd"), streams=(4,), repeats=6))


def shown(folder, terminal, **environment):
    """What `savemark report` prints into a pipe, or on a terminal."""
    kept = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR")}
    words = [sys.executable, "-m", "savemark", "report", str(folder)]
    kept |= {"TERM": "xterm-256color", **environment}
    if not terminal:
        done = subprocess.run(words, env=kept, capture_output=True, text=True, check=True)
        return done.stdout + done.stderr
    parent, child = pty.openpty()
    process = subprocess.Popen(words, env=kept, stdin=child, stdout=child, stderr=child)
    os.close(child)
    out = b""
    try:
        while chunk := os.read(parent, 1 << 16):
            out += chunk
    except OSError:  # Linux says EIO when the other side of a terminal is closed
        pass
    assert process.wait() == 0
    return out.decode()


def test_what_is_redirected_holds_no_escapes(folder):
    assert ESCAPE not in shown(folder, terminal=False)
    assert ESCAPE in shown(folder, terminal=True)


def test_a_rank_takes_the_terminal_of_its_launcher_for_none(folder):
    """Open MPI's processes have one each, also where mpirun's output goes into a file."""
    ranks = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}
    assert ESCAPE not in shown(folder, terminal=True, **ranks)
    assert ESCAPE in shown(folder, terminal=True, FORCE_COLOR="1", **ranks)
