"""Saves and restores of 1, 8 and 64 GiB: the same memory each, and time that grows with the size.

    python bench/memory.py SCRATCH [--gib 1 8 64] [--codec zstd]

The state is a sparse file, so the checkpoint is small whatever its size; every byte of it is read,
encoded, digested, decoded and digested again, by the commands that people use. `verify` is a
restore that keeps nothing. `restore` writes real files, and is left out where they have no room.

Expected before measuring (and why): the peak is that of the interpreter and 12 to 20 MiB of buffers
(streams x (queue_depth + 1) chunks), the same for all sizes but for the list of chunks: 80 bytes
for a MiB of state as text, about as much again when parsed, so some 10 MiB at 64 GiB. Seconds per
GiB are the same from 8 to 64 GiB. (Came out 41, 42 and 52 MiB for saving, 29, 29 and 35 for
verifying; the times of that run are those of a busy machine.)
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GIB = 1 << 30


# The process tells its own mark; that of wait4 may be its parent's, from which it was forked.
TELL = """
import pathlib, runpy, sys
try:
    runpy.run_module("savemark", run_name="__main__", alter_sys=True)
finally:
    status = pathlib.Path("/proc/self/status").read_text()
    print(status.split("VmHWM:")[1].split()[0], file=sys.stderr)
"""


def peak(*words: str) -> tuple[float, int]:
    """Runs `savemark WORDS`; returns its seconds and its peak memory in bytes."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", TELL, *words, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"savemark {' '.join(words)} ended with {done.returncode}: {done.stderr}")
    return time.perf_counter() - start, int(done.stderr.split()[-1]) << 10


def show(gib: int, command: str, seconds: float, peak_bytes: int) -> None:
    """Prints one line."""
    mib = peak_bytes / (1 << 20)
    print(f"{gib:4} GiB  {command:<8} {seconds:7.2f} s  {seconds / gib:6.3f} s/GiB  {mib:6.0f} MiB")


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--gib", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--codec", default="zstd")
    asked = parser.parse_args()
    print(f"sparse files, codec {asked.codec}; peak memory is that of the whole process")
    for gib in asked.gib:
        with tempfile.TemporaryDirectory(dir=asked.scratch) as folder:
            state, checkpoint, back = (str(Path(folder) / n) for n in ("state", "ck", "back"))
            with Path(state).open("wb") as file:
                file.truncate(gib * GIB)
            show(gib, "save", *peak("save", state, checkpoint, "--codec", asked.codec))
            show(gib, "verify", *peak("verify", checkpoint))
            if shutil.disk_usage(folder).free > 2 * gib * GIB:
                show(gib, "restore", *peak("restore", checkpoint, back))
    return 0


if __name__ == "__main__":
    sys.exit(main())
