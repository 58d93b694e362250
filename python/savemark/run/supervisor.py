"""The process that holds the mounts of a run, and takes them down when that run ends, however.

A program of its own: `python -m savemark.run.supervisor FOLDER`. It reads requests from its
standard input, a line of JSON each, and answers each with a line. When the input ends, which it
does even if the run is killed, everything is unmounted, ended and removed, and it goes.

It imports nothing of savemark: it must start at once, and outlive it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MOST_S = 60.0
STEP_S = 0.02
PR_SET_PDEATHSIG = 1
ESCAPES = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


class Mount:
    """One mounted place: the process behind it, and how to take it down."""

    def __init__(self, asked: dict[str, Any], folder: Path) -> None:
        self.point = Path(asked["mountpoint"])
        self.cache = Path(asked["cache"])
        self.command: list[str] = asked["command"]
        self.unmount: list[str] = asked["unmount"]
        self.printed = [folder / f"{self.point.name}.{kind}" for kind in ("err", "out")]
        self.process: subprocess.Popen[bytes] | None = None

    def up(self) -> None:
        """Mount, and wait until it is there."""
        self.point.mkdir(exist_ok=True)
        self.cache.mkdir(exist_ok=True)
        with self.printed[0].open("ab") as err, self.printed[1].open("ab") as out:
            try:
                self.process = subprocess.Popen(
                    self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                    preexec_fn=_end_with_parent,  # noqa: PLW1509 - it has no threads
                )
            except OSError as error:
                raise RuntimeError(
                    f"{self.command[0]} cannot be started: {error.strerror}"
                ) from None
        until = time.monotonic() + MOST_S
        while not is_mounted(self.point):
            code = self.process.poll()
            # One that goes to the background ends with 0, and mounts before or after that.
            if code not in (None, 0) or time.monotonic() > until:
                how = f"ended with {code}" if code else f"has not mounted in {MOST_S:.0f} s"
                said = self.said()
                self.down()
                raise RuntimeError(f"{self.command[0]} {how}: {said}")
            time.sleep(STEP_S)

    def down(self) -> None:
        """Unmount, gently first; end the process; forget its cache."""
        for words in (self.unmount, ["fusermount3", "-u"], ["umount"]):
            if is_mounted(self.point):
                _try(words if words is self.unmount else [*words, str(self.point)])
                _wait(lambda: not is_mounted(self.point), 5)
        self._end()
        for words in (["fusermount3", "-uz"], ["umount", "-l"]):
            if is_mounted(self.point):
                _try([*words, str(self.point)])
        shutil.rmtree(self.cache, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.point.rmdir()

    def _end(self) -> None:
        """Wait for the process, which may be busy with its last bytes; then insist."""
        process = self.process
        if process is None:
            return
        for number, patience_s in ((0, 20), (signal.SIGTERM, 5), (signal.SIGKILL, 5)):
            if number:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience_s)
                return

    def said(self) -> str:
        """Return the last line of what it printed."""
        texts = [path.read_text(errors="replace").strip() for path in self.printed]
        lines = next((text for text in texts if text), "it said nothing").splitlines()
        return "; ".join(lines[-2:])[:300]


def is_mounted(point: Path) -> bool:
    """Ask the kernel's list: a dead FUSE mount answers no other question."""
    wanted = str(point)
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        found = line.split(" ")[4]
        for escape, meant in ESCAPES.items():
            found = found.replace(escape, meant)
        if found == wanted:
            return True
    return False


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _try(words: list[str]) -> None:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(words, capture_output=True, timeout=MOST_S, check=False)


def _wait(done: Any, patience_s: float) -> None:
    until = time.monotonic() + patience_s
    while not done() and time.monotonic() < until:
        time.sleep(STEP_S)


def serve(folder: Path) -> None:
    """Answer requests until there are no more."""
    mounts: dict[str, Mount] = {}
    try:
        for line in sys.stdin:
            answer = _answer(json.loads(line), mounts, folder)
            with contextlib.suppress(BrokenPipeError):
                sys.stdout.write(json.dumps(answer) + "\n")
                sys.stdout.flush()
    finally:
        for mount in mounts.values():
            mount.down()
        shutil.rmtree(folder, ignore_errors=True)


def _answer(asked: dict[str, Any], mounts: dict[str, Mount], folder: Path) -> dict[str, Any]:
    try:
        if asked["do"] == "mount":
            mount = mounts[asked["mountpoint"]] = Mount(asked, folder)
            mount.up()
        else:
            mounts.pop(asked["mountpoint"]).down()
    except (RuntimeError, OSError, KeyError) as error:
        return {"ok": False, "error": str(error)}
    return {"ok": True}


def main() -> None:
    """Serve; signals that end a process end this one in order."""
    folder = Path(sys.argv[1])

    def stop(_number: int, _frame: object) -> None:
        raise SystemExit

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    serve(folder)


if __name__ == "__main__":
    main()
