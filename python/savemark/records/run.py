"""A run folder as typed, immutable data: `run.json` and `records.jsonl`, nothing else."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from savemark import limits
from savemark.errors import usage
from savemark.records.fields import Factors, Option
from savemark.records.head import Host, Missing, Race, SourceFile, Study, Target
from savemark.records.phase import Phase
from savemark.records.record import Error, Planned, Record
from savemark.records.stored import RECORDS, Damage, Lines, read_lines, typed_head

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kept:
    """A line of `records.jsonl`, by where it is."""

    lines: Lines
    place: int
    length: int

    def record(self) -> Record:
        """Read the record in it."""
        return self.lines.record(self.place, self.length)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the plan, and (once it ran) of `records.jsonl`."""

    index: int
    role: str
    name: str
    label: str
    repeat: int
    factors: Factors
    status: str = "planned"
    # The record, or the line that holds it: read anew at each look.
    kept: Record | Kept | None = None
    error: Error | None = None
    run: str = ""  # the name of its run, where several are read together

    @property
    def record(self) -> Record | None:
        """The record; None of a failed trial."""
        return self.kept.record() if isinstance(self.kept, Kept) else self.kept

    @property
    def ok(self) -> bool:
        """Whether the trial ran to its end."""
        return self.status == "ok" and self.kept is not None

    @property
    def phases(self) -> list[Phase]:
        """The phases of the record; none of a failed trial."""
        record = self.record
        return record.phases if record else []


@dataclass(frozen=True, slots=True)
class Run:
    """Everything a report is computed from."""

    folder: Path
    run_id: str
    version: str
    started_at: str
    command: list[str]
    study: Study
    host: Host
    targets: list[Target]
    order_seed: int | None
    plan: list[Entry]
    entries: list[Entry]
    unreadable_lines: int
    # The first of them: `records.jsonl:17: what is wrong`.
    unreadable: tuple[str, ...] = field(default=(), kw_only=True)
    # "live", or "imported" from the files in `sources` (file, sha256, bytes, format, label).
    origin: str = "live"
    sources: tuple[SourceFile, ...] = ()
    race: Race | None = None  # of a race
    # All that is recorded of the host.
    host_facts: Json = field(default_factory=dict)
    # What was computed from the entries, so that it is computed once.
    memory: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    # The runs that this one was put together from, by name; empty for a run of its own.
    parts: Mapping[str, Run] = field(default_factory=dict)

    @property
    def study_name(self) -> str:
        """The name of the study, `run` if it has none."""
        return self.study.name or "run"

    @property
    def missing(self) -> list[Entry]:
        """What was planned and has no line yet: the run was stopped or is still going."""
        done = {entry.index for entry in self.entries}
        return [planned for planned in self.plan if planned.index not in done]

    @property
    def missing_levels(self) -> list[Missing]:
        """What the engine refused before the run."""
        return self.study.missing

    @property
    def failed(self) -> list[Entry]:
        """The trials that ran and did not finish."""
        return [entry for entry in self.entries if not entry.ok]

    @property
    def unfinished(self) -> Path:
        """The folder that can be resumed: of several runs, that of the first with a gap."""
        gaps = (run.folder for run in self.parts.values() if run.missing or run.failed)
        return next(gaps, self.folder)

    def option(self, name: str) -> Option:
        """An option common to the study's trials (`trial` wins over `defaults`)."""
        own = self.study.trial.get(name)
        return self.study.defaults.get(name) if own is None else own


def read_run(folder: Path) -> Run:
    """Reads a run folder; a damaged line (torn, when the machine died) is left out and named."""
    head = typed_head(folder)
    damage, entries = Damage(), list[Entry]()
    try:
        lines = Lines(folder / RECORDS)
    except FileNotFoundError:
        pass  # stopped before its first trial ended
    else:
        entries = _entries(lines, damage)
    if len(entries) > limits.MOST_TRIALS:
        raise usage(
            f"{folder}: more than {limits.MOST_TRIALS} trials", "split the run into several"
        )
    return Run(
        folder=folder,
        run_id=head.run_id,
        version=head.savemark_version,
        started_at=head.started_at,
        command=head.command,
        study=head.study,
        host=head.machine,
        host_facts=head.host,
        targets=head.targets,
        order_seed=head.order_seed,
        plan=_plan(head.plan),
        entries=entries,
        unreadable_lines=damage.count,
        unreadable=tuple(damage.named),
        origin=head.origin,
        sources=tuple(head.sources),
        race=head.race,
    )


def _plan(plan: list[Planned]) -> list[Entry]:
    same = Same()
    return [_entry(each, same) for each in plan]


def _entries(lines: Lines, damage: Damage) -> list[Entry]:
    """Return the trials; one that was run again by --resume has two lines, the later counts."""
    latest: dict[int, Entry] = {}
    same = Same()
    for line, place, length in read_lines(lines, damage):
        kept = None if line.record is None else Kept(lines, place, length)
        entry = replace(
            _entry(line, same), status=sys.intern(line.status), kept=kept, error=line.error
        )
        latest.pop(entry.index, None)
        latest[entry.index] = entry
    return list(latest.values())


class Same:
    """Words and factors that are equal, kept once: a hundred thousand trials have few of them."""

    def __init__(self) -> None:
        self._factors: dict[str, Factors] = {}

    def factors(self, found: Factors) -> Factors:
        """Return factors with the same levels of the same types."""
        return self._factors.setdefault(repr(found), found)


def _entry(item: Planned, same: Same) -> Entry:
    return Entry(
        index=item.index,
        role=sys.intern(item.role),
        name=sys.intern(item.name),
        label=sys.intern(item.label),
        repeat=item.repeat,
        factors=same.factors(item.factors),
    )
