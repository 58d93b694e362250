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
    found = MINUTES.search(text)
    if found:
        seconds = number(found[2])
        return None if seconds is None else times(int(found[1] or 0) * 60 + seconds, NS_PER_S)
    found = VERBOSE.search(text)
    if found:
        seconds = number(found[3])
        minutes = int(found[1] or 0) * 60 + int(found[2])
        return None if seconds is None else times(minutes * 60 + seconds, NS_PER_S)
    found = ALONE.search(text)
    return times(found[1], NS_PER_S) if found else None
