"""A process of another program: started, waited for, and never left behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from resource import struct_rusage

from savemark.errors import SavemarkError, usage

PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True)
class Ended:
    """What a process left: its exit status, how long it took, and what it used."""

    status: int  # as a shell says it; 128 + the signal that killed it
    started_unix_ns: int
    elapsed_ns: int
    cpu_user_ns: int  # its own, and that of the children that it waited for
    cpu_system_ns: int


def run(
    argv: Sequence[str], stdout: Path | None, stderr: Path, environment: Mapping[str, str]
) -> Ended:
    """Run a program to its end, alone in its group; where we are killed, so is it.

    `stdout` None throws away what it prints. A program that cannot be started is a usage error.
    """
    with contextlib.ExitStack() as stack:
        out = stack.enter_context((stdout or Path(os.devnull)).open("wb"))
        err = stack.enter_context(stderr.open("wb"))
        started_unix_ns, start_ns = time.time_ns(), time.monotonic_ns()
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, **environment},
                process_group=0,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one call, of a function loaded before
            )
        except OSError as error:
            why = f"{argv[0]} cannot be started: {error.strerror}"
            raise usage(why, f"install {argv[0]}, or put it on PATH") from None
        status, used = _wait(process)
        elapsed_ns = time.monotonic_ns() - start_ns
    return Ended(
        status, started_unix_ns, elapsed_ns, int(used.ru_utime * 1e9), int(used.ru_stime * 1e9)
    )


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies, by whatever."""
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait(process: subprocess.Popen[bytes]) -> tuple[int, struct_rusage]:
    """Wait for the end; Ctrl-C ends the whole group first."""
    try:
        _, status, used = os.wait4(process.pid, 0)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    process.returncode = os.waitstatus_to_exitcode(status)  # so that nobody waits again
    code = process.returncode
    return (128 - code if code < 0 else code), used


def failure(tool: str, ended: Ended, printed: str, log: Path) -> SavemarkError:
    """Return the error of a program that ended badly, with the last line that it printed."""
    how = f"was killed by signal {ended.status - 128}" if ended.status > 128 else ""
    how = how or f"ended with status {ended.status}"
    # Some draw a line below what they say.
    words = [line for line in printed.splitlines() if any(letter.isalnum() for letter in line)]
    last = words[-1].strip() if words else "it said nothing"
    return SavemarkError("failed", f"{tool} {how}: {last[:400]}", f"all it said is in {log}")
