"""A command that makes the other side of a pair current, called whenever the side changes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from savemark import capture
from savemark.errors import SavemarkError
from savemark.run.forecast import Forecast
from savemark.run.watcher import Watcher
from savemark.study.plan import Entry

SIDE, TARGET = "SAVEMARK_SIDE", "SAVEMARK_TARGET"


class Switch(Watcher):
    """Passes everything on to another watcher, and calls the command between the sides."""

    def __init__(self, command: str, targets: Mapping[str, str], shown: Watcher) -> None:
        self._command, self._targets, self._shown = command, targets, shown
        self._current: str | None = None

    def note(self, text: str) -> None:
        """Pass it on."""
        self._shown.note(text)

    def measuring(self) -> None:
        """Pass it on: sizes are calibrated on what is current before the first trial."""
        self._shown.measuring()

    def look(self, race: dict[str, Any]) -> None:
        """Pass it on."""
        self._shown.look(race)

    def agree(self, found: Forecast) -> None:
        """Pass it on."""
        self._shown.agree(found)

    def announce(self, forecast: Forecast, left: list[Entry]) -> None:
        """Pass it on."""
        self._shown.announce(forecast, left)

    def more(self, entries: list[Entry]) -> None:
        """Pass it on."""
        self._shown.more(entries)

    def started(self, entry: Entry) -> None:
        """Switch if this trial is of the other side; nothing is timed yet."""
        self._shown.started(entry)
        if entry.label != self._current:
            self._current = None
            self._call(entry.label)
            self._current = entry.label

    def moved(self, progress: dict[str, Any]) -> None:
        """Pass it on."""
        self._shown.moved(progress)

    def finished(self, entry: Entry, line: dict[str, Any]) -> None:
        """Pass it on."""
        self._shown.finished(entry, line)

    def _call(self, label: str) -> None:
        told = {**os.environ, SIDE: label, TARGET: self._targets[label]}
        done = capture.run(["/bin/sh", "-c", self._command], environment=told)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise SavemarkError(
                "failed",
                f"--switch `{self._command}` ended with {done.returncode} for {label}"
                + (f": {said[-1]}" if said else ""),
                f"try it alone, with {SIDE}={label} {TARGET}={self._targets[label]}",
            )
