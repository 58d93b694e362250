"""The process that holds the mounts of a run, and takes them down when that run ends, however.

A program of its own: `python -m savemark.run.supervisor FOLDER`. It reads requests from its
standard input, a line of JSON each, and answers each with a line. When the input ends, which it
does even if the run is killed, everything is unmounted, ended and removed, and it goes.

It imports little: it must start at once, and outlive the run.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from savemark.capture import end_of
from savemark.places import Directory
from savemark.places.removal import is_mounted, remove_tree

MOST_S = 60.0  # that mounting takes, and a command that unmounts
BUSY_S = 600.0  # the supervisor with one mount: every way to take it down has failed by then
STEP_S = 0.02
SAID_BYTES = 4096  # of what a command printed last, looked at for an error
PR_SET_PDEATHSIG = 1


class Mount:
    """One mounted place: the process behind it, and how to take it down."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.point = Path(asked["mountpoint"])
        self.cache = Path(asked["cache"])
        self.command: list[str] = asked["command"]
        self.unmount: list[str] = asked["unmount"]
        self.printed = [self.point.parent / kind for kind in ("err", "out")]
        self.process: subprocess.Popen[bytes] | None = None

    def up(self) -> None:
        """Mount, and wait until it is there."""
        if is_mounted(self.point):
            raise RuntimeError(f"{self.point} is still mounted")
        for folder in (self.point.parent, self.point, self.cache):
            folder.mkdir(exist_ok=True)
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
                printed = self.last_lines()
                self.down()
                raise RuntimeError(f"{self.command[0]} {how}: {printed}")
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
        with contextlib.suppress(OSError):
            remove_tree(self.cache)
        with contextlib.suppress(OSError):
            self.point.rmdir()

    def _end(self) -> None:
        """Wait for the process, which may be busy with its last bytes; then insist."""
        process = self.process
        if process is None:
            return
        for number, timeout_s in ((0, 20), (signal.SIGTERM, 5), (signal.SIGKILL, 5)):
            if number:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout_s)
                return

    def last_lines(self) -> str:
        """Return the last line of what it printed."""
        texts = [end_of(path, SAID_BYTES).strip() for path in self.printed]
        lines = next((text for text in texts if text), "it said nothing").splitlines()
        return "; ".join(lines[-2:])[:300]


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _try(words: list[str]) -> None:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            words,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=MOST_S,
            check=False,
        )


def _wait(done: Any, timeout_s: float) -> None:
    until = time.monotonic() + timeout_s
    while not done() and time.monotonic() < until:
        time.sleep(STEP_S)


def serve() -> None:
    """Answer requests until there are no more."""
    mounts: dict[str, Mount] = {}
    try:
        for line in sys.stdin:
            answer = _answer(json.loads(line), mounts)
            with contextlib.suppress(BrokenPipeError):
                sys.stdout.write(json.dumps(answer) + "\n")
                sys.stdout.flush()
    finally:
        for mount in mounts.values():
            mount.down()


def _answer(asked: dict[str, Any], mounts: dict[str, Mount]) -> dict[str, Any]:
    try:
        if asked["do"] == "mount":
            mount = mounts[asked["mountpoint"]] = Mount(asked)
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
    try:
        serve()
    finally:
        with contextlib.suppress(OSError):  # what is still mounted in it stays; the run says so
            Directory(folder).remove_owned()


if __name__ == "__main__":
    main()
