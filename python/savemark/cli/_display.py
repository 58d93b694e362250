"""Shows a run on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.status import Status

from savemark.cli._print import terminal
from savemark.cli._words import about, ceilings_line, header
from savemark.run.forecast import Forecast
from savemark.run.watcher import Watcher
from savemark.study.plan import Entry, stage
from savemark.units import rate_text

# How often a log (a file, a job's output) gets a line.
LINE_EVERY_S = 10.0


class Display(Watcher):
    """What the user sees while a run goes on."""

    def __init__(self) -> None:
        self._console = terminal(stderr=True, soft_wrap=True)
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._status: Status | None = None
        self._setting = ""
        self._total = self._done = 0
        self._forecast_s = 0.0
        self._began = self._last_line = self._phase_began = time.monotonic()
        self._phase = ""
        self._listed: list[str] = []
        self._race, self._stage = False, ""
        self._ceilings_wanted = 0
        self._ceilings: dict[str, dict[str, Any]] = {}

    def note(self, text: str) -> None:
        """Print a note."""
        self._print(f"note: {text}")

    def measuring(self) -> None:
        """Say why nothing seems to happen; only to somebody who watches."""
        self._status = self._console.status("measuring storage and codecs to choose a size")
        if self._console.is_terminal:
            self._status.start()

    def look(self, race: dict[str, Any]) -> None:
        """Say what disturbs the machine."""
        if disturbed := (race.get("rest") or {}).get("disturbed_by"):
            self._print(f"note: the machine is not at rest: {disturbed}")

    def announce(self, forecast: Forecast, left: list[Entry]) -> None:
        """Print the header and start the bar."""
        self.close()
        self._print(header(forecast))
        # Of this run: a crosscheck shows several, one after the other.
        self._total, self._done, self._forecast_s = len(left), 0, forecast.seconds
        self._ceilings, self._race = {}, forecast.study.race is not None
        self._stage = stage(left)
        self._listed = list(forecast.study.ceilings)
        self._ceilings_wanted = len({_ceiling_name(e) for e in left if e.role == "ceiling"})
        self._began = self._last_line = time.monotonic()
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            columns = (
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TextColumn("{task.description}"),
            )
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._task = self._bar.add_task("", total=self._total)
            self._bar.start()

    def more(self, entries: list[Entry]) -> None:
        """Count the added block in."""
        self._total += len(entries)
        self._stage = stage(entries)
        if self._bar is not None:
            self._bar.update(self._task, total=self._total)
        elif self._done == self._total - len(entries):
            self._print(f"{stage(entries)}: {len(entries)} trials")

    def started(self, entry: Entry) -> None:
        """Show what runs now."""
        self._phase = ""
        self._setting = entry.setting
        if self._race:
            self._setting = f"{self._stage}: {entry.setting}"
            if self._stage == "confirm":
                self._setting += f", block {entry.repeat + 1}"
        self._show(self._setting)

    def moved(self, progress: dict[str, Any]) -> None:
        """Show how fast it goes."""
        now = time.monotonic()
        if progress["phase"] != self._phase:
            self._phase, self._phase_began = progress["phase"], now
        seconds = now - self._phase_began
        rate = f"  {rate_text(progress['done_bytes'] / seconds)}" if seconds > 0 else ""
        self._show(f"{self._setting}  {self._phase}{rate}")

    def finished(self, entry: Entry, line: dict[str, Any]) -> None:
        """Count a trial; once every ceiling is known, print them."""
        self._done += 1
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done)
        if line["error"]:
            self._print(
                f"{entry.setting}, repeat {entry.repeat + 1} failed: {line['error']['message']}"
            )
        name = _ceiling_name(entry)
        if line["record"] and entry.role == "ceiling" and name not in self._ceilings:
            self._ceilings[name] = line["record"]
            if len(self._ceilings) == self._ceilings_wanted:
                self._print(ceilings_line(self._fastest()))
        if self._bar is None and time.monotonic() - self._last_line >= LINE_EVERY_S:
            self._last_line = time.monotonic()
            self._print(
                f"{self._done}/{self._total}  {entry.setting}  {about(self._left_s())} left"
            )

    def _fastest(self) -> dict[str, dict[str, Any]]:
        """Return the ceilings as the study lists them, of `write/1`, `write/8` … the fastest."""
        found: dict[str, dict[str, Any]] = {}
        for name, record in self._ceilings.items():
            base = self._base(name)
            if base not in found or _rate(found[base]) < _rate(record):
                found[base] = record
        order = {name: self._listed.index(name.split(" ")[-1]) for name in found}
        return {name: found[name] for name in sorted(found, key=lambda name: order[name])}

    def _base(self, name: str) -> str:
        return name if name.rsplit(" ", maxsplit=1)[-1] in self._listed else name.rpartition("/")[0]

    def close(self) -> None:
        """Take the bar away: the terminal belongs to others."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _left_s(self) -> float:
        """Return the seconds left: as forecast at first, then as the trials really took."""
        if self._race:  # how many trials there will be is decided while it runs
            return max(0.0, self._forecast_s - (time.monotonic() - self._began))
        share = self._done / self._total
        trust = min(1.0, 5 * share)
        total = (time.monotonic() - self._began) / share if share else 0.0
        return (1 - share) * (trust * total + (1 - trust) * self._forecast_s)

    def _show(self, text: str) -> None:
        if self._bar is not None:
            left = timedelta(seconds=round(self._left_s()))
            self._bar.update(self._task, description=f"{text}  {left} left")

    def _print(self, text: str) -> None:
        # As it is: brackets in a path are no markup.
        self._console.print(text, markup=False)


def _ceiling_name(entry: Entry) -> str:
    return f"{entry.label} {entry.name}" if "target" in entry.factors else entry.name


def _rate(record: dict[str, Any]) -> float:
    phase = record["phases"][-1]
    return float(phase["user_bytes"] / max(phase["elapsed_ns"], 1))
