"""Memory does not grow with the state: the commands, in processes of their own."""

import json
import subprocess
import sys

import pytest

MIB = 1 << 20
# What a save or restore may take beyond what Python itself does.
MOST = 256 * MIB


@pytest.fixture
def flags(tmp_path):
    """How this filesystem can be used."""
    from savemark import _engine

    target = json.loads(_engine.host(str(tmp_path)))["target"]
    uring = {f["name"]: f["available"] for f in json.loads(_engine.features())}["io_uring"]
    if target["class"] == "memory":
        return ["--storage", "posix", "--no-direct"]
    return [] if uring else ["--storage", "posix"]


# The process tells its own mark; that of wait4 may be its parent's, from which it was forked.
TELL = """
import pathlib, runpy, sys
try:
    runpy.run_module("savemark", run_name="__main__", alter_sys=True)
finally:
    status = pathlib.Path("/proc/self/status").read_text()
    print(status.split("VmHWM:")[1].split()[0], file=sys.stderr)
"""


def peak(*words):
    """Run a command; return its peak memory in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", TELL, *map(str, words), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stderr.split()[-1]) << 10


def test_two_gibibytes_take_the_memory_of_a_quarter(tmp_path, flags):
    found = {}
    for mib in (256, 2048):
        state, checkpoint = tmp_path / f"state-{mib}", tmp_path / f"ck-{mib}"
        with state.open("wb") as file:
            file.truncate(mib * MIB)  # sparse: it takes no room, and neither does its checkpoint
        found["save", mib] = peak("save", state, checkpoint, "--codec", "zstd", *flags)
        found["verify", mib] = peak("verify", checkpoint, *flags)
    for command in ("save", "verify"):
        small, large = found[command, 256], found[command, 2048]
        assert large < MOST, f"{command} took {large} bytes"
        assert large < small + 32 * MIB, f"{command} grew from {small} to {large} bytes"
