"""A run folder as typed, immutable data: `run.json` and `records.jsonl`, nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from savemark.errors import usage

Json = dict[str, Any]
# How the line of a finished trial goes on after its head, and how it ends.
FINISHED, WHOLE = b',"status":"ok","record":{', b'},"error":null}\n'


@dataclass(frozen=True, slots=True)
class Target:
    """A place that was measured, and the short name it goes by."""

    label: str
    target: str
    facts: Json = field(default_factory=dict)  # its filesystem and disk, where they were recorded


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
    # The record, or the line that holds it: parsed anew at each look, a hundred thousand fit.
    kept: Json | bytes | None = None
    error: Json | None = None
    run: str = ""  # the name of its run, where several are read together

    @property
    def record(self) -> Json | None:
        """The engine's record, none for a failed trial."""
        if isinstance(self.kept, bytes):
            found: Json = parse(self.kept)["record"]
            return found
        return self.kept

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
    # "live", or "imported" from the files in `sources` (file, sha256, bytes, format, label).
    origin: str = "live"
    sources: tuple[Json, ...] = ()
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
    """Reads a run folder; a torn last line (the machine died in mid-write) is left out."""
    head = _read_head(folder)
    lines, unreadable = _read_lines(folder / "records.jsonl")
    # A trial that was run again by --resume has two lines; the later one is what happened.
    latest: dict[int, Entry] = {}
    for entry in lines:
        latest.pop(entry.index, None)
        latest[entry.index] = entry
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
        plan=[_entry(item) for item in head.get("plan") or []],
        entries=list(latest.values()),
        unreadable_lines=unreadable,
        origin=str(head.get("origin") or "live"),
        sources=tuple(head.get("sources") or []),
    )


def _read_head(folder: Path) -> Json:
    path = folder / "run.json"
    try:
        head = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise usage(
            f"{folder} is not a run folder: it has no run.json",
            "name the folder that `savemark run` printed, for example savemark-runs/<time>-quick",
        ) from None
    except (OSError, ValueError) as error:
        raise usage(f"cannot read {path}: {error}") from error
    if not isinstance(head, dict) or head.get("schema") != 1:
        raise usage(
            f"{path} has schema {head.get('schema') if isinstance(head, dict) else '?'}, "
            "this savemark reads schema 1",
            "use the version of savemark that made the run, or a newer one",
        )
    return head


def _read_lines(path: Path) -> tuple[list[Entry], int]:
    if not path.exists():
        return [], 0
    entries, unreadable = [], 0
    for line in _lines(path):
        try:
            item = _head_of(line)
            entries.append(_entry(item, line if item.get("record") is not None else None))
        except (ValueError, KeyError, TypeError, AttributeError):
            unreadable += 1
    return entries, unreadable


def _head_of(line: bytes) -> Json:
    """Parse a line, its record only where that cannot be left for later.

    A finished trial's line, as a run writes it, ends with its record; what stands before is small.
    """
    cut = line.find(FINISHED)
    if cut < 0 or not line.endswith(WHOLE):
        return parse(line)
    return {**parse(line[:cut] + b"}"), "status": "ok", "record": {}}


def parse(line: bytes) -> Json:
    """Return the object in a line of `records.jsonl`."""
    try:
        found: Json = orjson.loads(line)
    except orjson.JSONDecodeError:
        found = json.loads(line)  # also reads NaN, which is no JSON and which Python writes
    return found


def _lines(path: Path) -> Iterator[bytes]:
    # Split on newlines only: str.splitlines would also cut at U+2028 inside a message.
    with path.open("rb") as file:
        yield from (line for line in file if line.strip())


def _entry(item: Json, kept: bytes | None = None) -> Entry:
    return Entry(
        index=int(item["index"]),
        role=str(item["role"]),
        name=str(item["name"]),
        label=str(item.get("label") or ""),
        repeat=int(item.get("repeat") or 0),
        factors=dict(item.get("factors") or {}),
        status=str(item.get("status") or "planned"),
        kept=kept,
        error=item.get("error"),
    )
