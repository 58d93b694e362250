"""The trials of a plan, one after the other; the only place that calls the engine in a run."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import savemark._engine as engine
from savemark.errors import RankLost, SavemarkError, from_exception
from savemark.run import race, rest
from savemark.run.folder import Json, RunFolder
from savemark.run.repeats import next_block
from savemark.run.runner import Runner
from savemark.run.watcher import Watcher
from savemark.study.keys import Keys, Trial
from savemark.study.model import Study
from savemark.study.plan import Entry

# So many failures in a row with the same message are no accident.
SAME_FAILURES = 3


@dataclass
class Tally:
    """What became of the trials of one session."""

    ok: int = 0
    failed: int = 0
    corrupt: int = 0

    def count(self, error: SavemarkError | None) -> None:
        """Add one trial."""
        if error is None:
            self.ok += 1
        elif error.kind == "corrupt":
            self.corrupt += 1
        else:
            self.failed += 1


@dataclass(frozen=True)
class Loop:
    """Everything that the trials of a plan need."""

    study: Study
    keys: Keys
    entries: list[Entry]
    folder: RunFolder
    workspaces: Mapping[str, str]
    runner: Runner
    watcher: Watcher
    # Seconds after which no trial starts any more: a budget that was given by hand.
    budget_s: float | None = None
    # Called before each trial, which is announced already.
    prepare: Callable[[Entry], None] = lambda _: None

    def run(self) -> Tally:
        """Run what is left; whatever stops that says how to finish it."""
        try:
            return self._run()
        except BaseException as stopped:
            error = from_exception(stopped)
            if error is None:
                raise
            self.folder.log(f"stopped: {error.kind}: {error.message}")
            kept = f"{len(self.folder.finished)} of {len(self.entries)} trials are kept"
            again = f"savemark run --resume {shlex.quote(str(self.folder.path))}"
            if error.kind == "interrupted":
                raise SavemarkError("interrupted", f"interrupted; {kept}", again) from None
            self.watcher.note(f"{kept}; to finish the rest: {again}")
            raise error from stopped

    def _run(self) -> Tally:
        """Record a trial that failed and go on; stop at one that is wrong or refused."""
        tally, streak, last, began = Tally(), 0, None, time.monotonic()
        for entry in self._all():
            if entry.index in self.folder.finished:
                continue
            if self.budget_s is not None and time.monotonic() - began > self.budget_s:
                self._spent()
                break
            error = self._run_one(entry)
            tally.count(error)
            what = _gist(error)
            streak = streak + 1 if what == last else 1
            last = what
            if error and what and streak == SAME_FAILURES:
                message = f"{streak} trials in a row failed: {error.message}"
                raise SavemarkError("failed", message, error.hint)
        return tally

    def _spent(self) -> None:
        """Say that the budget ended before the plan did."""
        kept = f"{len(self.folder.finished)} of {len(self.entries)} trials are kept"
        text = f"the budget is spent; {kept}"
        self.folder.log(text)
        again = f"savemark run --resume {shlex.quote(str(self.folder.path))}"
        self.watcher.note(f"{text}; to run the rest: {again}")

    def _all(self) -> Iterator[Entry]:
        """Yield what is planned, then block after block of what is not known well enough."""
        yield from tuple(self.entries)
        while more := next_block(self.study, self.entries, self.folder):
            self.entries.extend(more)
            self.watcher.more(more)
            yield from more

    def _run_one(self, entry: Entry) -> SavemarkError | None:
        """Run one trial and record it; return the error of a trial that failed."""
        self.watcher.started(entry)
        self.prepare(entry)
        trial = self.trial(entry)
        rest.wait(self.workspaces[entry.label])
        record: Json | None = None
        error: SavemarkError | None = None
        try:
            record = self.runner.run(entry, trial, self.watcher.moved)
        except (engine.EngineError, SavemarkError) as raised:
            error = from_exception(raised)
            if error is None or error.kind not in ("failed", "corrupt"):
                raise
            if isinstance(error, RankLost):
                raise
        line = {
            **entry.as_json(),
            "status": "failed" if error else "ok",
            "record": record,
            "error": error.as_json() if error else None,
        }
        self.folder.append(line)
        outcome = f"{error.kind}: {error.message}" if error else "ok"
        self.folder.log(f"{entry.index} repeat {entry.repeat + 1} {entry.setting}: {outcome}")
        self.watcher.finished(entry, line)
        return error

    def trial(self, entry: Entry) -> Trial:
        """Return the trial as the engine takes it: in the run's own folder in the target."""
        return {
            **entry.trial(race.sized(self.study, entry, self.folder), self.keys),
            "target": self.workspaces[entry.label],
        }


def _gist(error: SavemarkError | None) -> str | None:
    """Return what failed without the file it failed on; None where it was no failure."""
    if error is None or error.kind == "corrupt":
        return None
    return re.sub(r"/\S+", "/…", error.message)
