"""What a run tells whoever shows it: the engine and this room print nothing."""

from __future__ import annotations

from typing import Any, Protocol

from savemark.run.forecast import Forecast
from savemark.study.plan import Entry


class Watcher(Protocol):
    """Whoever shows a run to its user."""

    def note(self, text: str) -> None:
        """Say one thing that the user should know."""

    def measuring(self) -> None:
        """The calibration starts; it takes a few seconds."""

    def look(self, race: dict[str, Any]) -> None:
        """What a race knows of the machine before its first trial, as `race` of `run.json`."""

    def agree(self, found: Forecast) -> None:
        """Before anything is kept: raise SavemarkError (refused) where nobody wants to wait."""
        del found  # whoever asks nobody agrees

    def announce(self, forecast: Forecast, left: list[Entry]) -> None:
        """All is settled: the trials in `left` start now."""

    def more(self, entries: list[Entry]) -> None:
        """A block of repeats was added: these settings are not known precisely enough yet."""

    def started(self, entry: Entry) -> None:
        """A trial starts."""

    def moved(self, progress: dict[str, Any]) -> None:
        """The running trial moved on: phase, done_bytes, total_bytes; about ten times a second."""

    def finished(self, entry: Entry, line: dict[str, Any]) -> None:
        """A trial is in the run folder."""
