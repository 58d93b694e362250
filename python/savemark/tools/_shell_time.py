"""The wall time that a shell or GNU time printed after a command."""

from __future__ import annotations

import re

from savemark.tools._numbers import NS_PER_S, number, times

# bash: real 1m2.345s; POSIX (`time -p`): real 62.34; GNU -v; and alone on the last line: -f %e.
MINUTES = re.compile(r"^real\s+(?:(\d{1,6})m)?([\d.]{1,20})s?\s*$", re.MULTILINE)
VERBOSE = re.compile(
    r"Elapsed \(wall clock\) time.*?:\s(?:(\d{1,6}):)?(\d{1,4}):([\d.]{1,12})\s*$", re.MULTILINE
)
ALONE = re.compile(r"\n\s*(\d{1,9}\.\d{1,9})\s*$")


def real_ns(text: str) -> int | None:
    """Return the wall time in ns; None where no `time` has spoken."""
    match = MINUTES.search(text)
    if match:
        seconds = number(match[2])
        return None if seconds is None else times(int(match[1] or 0) * 60 + seconds, NS_PER_S)
    match = VERBOSE.search(text)
    if match:
        seconds = number(match[3])
        minutes = int(match[1] or 0) * 60 + int(match[2])
        return None if seconds is None else times(minutes * 60 + seconds, NS_PER_S)
    match = ALONE.search(text)
    return times(match[1], NS_PER_S) if match else None
