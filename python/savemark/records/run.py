"""A run folder as typed, immutable data: `run.json` and `records.jsonl`, nothing else."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from savemark import limits
from savemark.errors import usage
from savemark.records.stored import RECORDS, Lines, Read, read_head, read_lines

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """A place that was measured, and the short name it goes by."""

    label: str
    target: str
    facts: Json = field(default_factory=dict)  # its filesystem and disk, where they were recorded


@dataclass(frozen=True, slots=True)
class Kept:
    """A line of `records.jsonl`, by where it is."""

    lines: Lines
    place: int
    length: int

    def record(self) -> Json:
        """The record in it."""
        return self.lines.record(self.place, self.length)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the plan, and (once it ran) of `records.jsonl`."""

    index: int
    role: str
    name: str
    label: str
    repeat: int
    factors: Json
    status: str = "planned"
    # The record, or the line that holds it: parsed anew at each look.
    kept: Json | Kept | None = None
    error: Json | None = None
    run: str = ""  # the name of its run, where several are read together

    @property
    def record(self) -> Json | None:
        """The engine's record, none for a failed trial."""
        return self.kept.record() if isinstance(self.kept, Kept) else self.kept

    @property
    def ok(self) -> bool:
        """Whether the trial ran to its end."""
        return self.status == "ok" and self.kept is not None

    @property
    def phases(self) -> list[Json]:
        """The phases of the engine's record, none for a failed trial."""
        record = self.record
        return list(record.get("phases") or []) if record else []


@dataclass(frozen=True, slots=True)
class Run:
    """Everything a report is computed from."""

    folder: Path
    run_id: str
    version: str
    started_at: str
    command: list[str]
    study: Json
    host: Json
    targets: list[Target]
    order_seed: int | None
    plan: list[Entry]
    entries: list[Entry]
    unreadable_lines: int
    # The first of them: `records.jsonl:17: what is wrong`.
    unreadable: tuple[str, ...] = field(default=(), kw_only=True)
    # "live", or "imported" from the files in `sources` (file, sha256, bytes, format, label).
    origin: str = "live"
    sources: tuple[Json, ...] = ()
    # Of a race: what was looked at, screened, left out and confirmed; None for any other study.
    race: Json | None = None
    # What was computed from the entries, so that it is computed once.
    memory: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    # The runs that this one was put together from, by name; empty for a run of its own.
    parts: Mapping[str, Run] = field(default_factory=dict)

    @property
    def study_name(self) -> str:
        """The name of the study, `run` if it has none."""
        return str(self.study.get("name") or "run")

    @property
    def missing(self) -> list[Entry]:
        """What was planned and has no line yet: the run was stopped or is still going."""
        done = {entry.index for entry in self.entries}
        return [planned for planned in self.plan if planned.index not in done]

    @property
    def missing_levels(self) -> list[Json]:
        """What the engine refused before the run: rule, reason, hint, cells."""
        return list(self.study.get("missing") or [])

    @property
    def failed(self) -> list[Entry]:
        """The trials that ran and did not finish."""
        return [entry for entry in self.entries if not entry.ok]

    @property
    def unfinished(self) -> Path:
        """The folder that can be resumed: of several runs, that of the first with a gap."""
        gaps = (run.folder for run in self.parts.values() if run.missing or run.failed)
        return next(gaps, self.folder)

    def option(self, name: str) -> Any:
        """An option common to the study's trials (`trial` wins over `defaults`)."""
        for part in ("trial", "defaults"):
            value = (self.study.get(part) or {}).get(name)
            if value is not None:
                return value
        return None


def read_run(folder: Path) -> Run:
    """Reads a run folder; a damaged line (torn, when the machine died) is left out and named."""
    head = read_head(folder)
    found, entries = Read(), list[Entry]()
    try:
        lines = Lines(folder / RECORDS)
    except FileNotFoundError:
        pass  # stopped before its first trial ended
    else:
        found = read_lines(lines)
        entries = _entries(found, lines)
    if len(entries) > limits.MOST_TRIALS:
        raise usage(
            f"{folder}: more than {limits.MOST_TRIALS} trials", "split the run into several"
        )
    return Run(
        folder=folder,
        run_id=str(head.get("run_id", "")),
        version=str(head.get("savemark_version", "unknown")),
        started_at=str(head.get("started_at", "")),
        command=[str(word) for word in head.get("command") or []],
        study=head.get("study") or {},
        host=head.get("host") or {},
        targets=[
            Target(str(t["label"]), str(t["target"]), t.get("facts") or {})
            for t in head.get("targets") or []
        ],
        order_seed=head.get("order_seed"),
        plan=_plan(head.get("plan") or []),
        entries=entries,
        unreadable_lines=found.damaged,
        unreadable=tuple(found.named),
        origin=str(head.get("origin") or "live"),
        sources=tuple(head.get("sources") or []),
        race=head.get("race"),
    )


def _plan(items: list[Json]) -> list[Entry]:
    same = Same()
    return [_entry(item, same) for item in items]


def _entries(found: Read, lines: Lines) -> list[Entry]:
    """Return the trials; one that was run again by --resume has two lines, the later counts."""
    latest: dict[int, Entry] = {}
    same = Same()
    while found.lines:  # and each is let go, for the list of all takes more room than the trials
        item, place, length = found.lines.popleft()
        kept = Kept(lines, place, length) if item["record"] is not None else None
        entry = _entry(item, same, kept)
        latest.pop(entry.index, None)
        latest[entry.index] = entry
    return list(latest.values())


class Same:
    """Words and factors that are equal, kept once: a hundred thousand trials have few of them."""

    def __init__(self) -> None:
        self._factors: dict[str, Json] = {}

    def word(self, value: Any) -> str:
        """Return the text of a value."""
        return sys.intern(str(value))

    def factors(self, found: Json | None) -> Json:
        """Return factors with the same levels of the same types."""
        return self._factors.setdefault(repr(found), found or {})


def _entry(item: Json, same: Same, kept: Kept | None = None) -> Entry:
    return Entry(
        index=int(item["index"]),
        role=same.word(item["role"]),
        name=same.word(item["name"]),
        label=same.word(item.get("label") or ""),
        repeat=int(item.get("repeat") or 0),
        factors=same.factors(item.get("factors")),
        status=same.word(item.get("status") or "planned"),
        kept=kept,
        error=item.get("error"),
    )
