"""A command that makes the other side of a pair current, called whenever the side changes."""

from __future__ import annotations

import os
from collections.abc import Mapping

from savemark import capture
from savemark.errors import SavemarkError
from savemark.study.plan import Entry

SIDE, TARGET = "SAVEMARK_SIDE", "SAVEMARK_TARGET"


class Switch:
    """Calls the command between trials of different sides; nothing is timed yet."""

    def __init__(self, command: str, targets: Mapping[str, str]) -> None:
        self._command, self._targets = command, targets
        self._current: str | None = None

    def __call__(self, entry: Entry) -> None:
        """Switch if this trial is of the other side."""
        if entry.label != self._current:
            self._current = None
            self._call(entry.label)
            self._current = entry.label

    def _call(self, label: str) -> None:
        environment = {**os.environ, SIDE: label, TARGET: self._targets[label]}
        done = capture.run(["/bin/sh", "-c", self._command], environment=environment)
        if done.returncode:
            printed = (done.stderr or done.stdout).strip().splitlines()
            raise SavemarkError(
                "failed",
                f"--switch `{self._command}` ended with {done.returncode} for {label}"
                + (f": {printed[-1]}" if printed else ""),
                f"try it alone, with {SIDE}={label} {TARGET}={self._targets[label]}",
            )
