"""Which version of a tool is on PATH, and how long it takes to say so; asked once."""

from __future__ import annotations

import functools
import subprocess
import time

from savemark import capture, tools


def version(name: str) -> str | None:
    """Return the first line that has a digit; None where the tool does not say, or only later."""
    return _asked(name)[0]


def process_ns(name: str) -> int | None:
    """Return how long its process takes that does nothing else; None where it cannot start."""
    return _asked(name)[1]


@functools.cache
def _asked(name: str) -> tuple[str | None, int | None]:
    words, began = tools.command(name).VERSION, time.monotonic_ns()
    if not words:
        return None, None
    try:
        done = capture.run(words, limit_s=30)
    except (OSError, subprocess.TimeoutExpired):
        return None, None
    elapsed_ns = time.monotonic_ns() - began
    lines = (done.stdout + done.stderr).splitlines()
    answer = next((line.strip() for line in lines if any(map(str.isdigit, line))), None)
    return answer, elapsed_ns
