"""Which version of a tool is on PATH, asked once."""

from __future__ import annotations

import functools
import subprocess

from savemark.tools import commands


@functools.cache
def version(name: str) -> str | None:
    """Return the first line that has a digit; None where the tool does not say."""
    words = commands.command(name).VERSION
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (done.stdout + done.stderr).splitlines()
    return next((line.strip() for line in lines if any(map(str.isdigit, line))), None)
