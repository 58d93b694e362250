"""Imported files as one run folder: entries, plan, study, host, and the originals beside them."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path, PurePath
from typing import Any

from msgspec import json
from msgspec.structs import replace

from savemark import limits, untrusted
from savemark.errors import usage
from savemark.records import mixed
from savemark.records.fields import Factors, Level
from savemark.records.frame import HEAD
from savemark.records.head import Host
from savemark.records.imported import Reading, Skipped
from savemark.records.naming import LEADING
from savemark.records.record import Line, Planned, Source, Trial
from savemark.records.versions import RECORD, RUN
from savemark.untrusted import clean, shown, typed

Json = dict[str, Any]
ORIGINALS, RECORDS, LOG, HEAD_FILE = "originals", "records.jsonl", "log.txt", "run.json"
TOOL = "tool"  # the factor that says which format a trial was read from
FEW = 5  # so many files are named in a title


@dataclass(frozen=True, slots=True)
class Made:
    """A line of the run, and the file that it is from."""

    line: Line
    source: Reading


def write_folder(
    sources: list[Reading], path: Path, head: Json, skipped: Sequence[Skipped] = ()
) -> Path:
    """Write a new run folder at `path`; `run.json` comes last, so that it is whole or no run.

    `head` has run_id, savemark_version, started_at and command, and may have parts of the study and
    the host that no file states (`given`). What was `skipped` is kept with its reason. Files that
    number the same trial twice, a file that changes meanwhile, and a path that is not empty, are
    usage errors, which leave nothing behind.
    """
    sources = [_marked(source) for source in sources]
    given = head.get("given") or {}
    head = {name: value for name, value in head.items() if name != "given"}
    lines = list(_lines(sources))
    _refuse_doubles(lines)
    plan, remarks = _plan(sources, lines)
    run = {
        "schema": RUN,
        **head,
        "command": [clean(word) for word in head["command"]],
        "origin": "imported",
        "sources": [],  # once they are copied
        "skipped": [{"file": shown(each.path), "why": each.why} for each in skipped],
        "study": _study(sources, plan) | (given.get("study") or {}),
        "host": {**_host(sources), **(given.get("host") or {})},
        "targets": [
            {"label": label, "target": label}
            for label in dict.fromkeys(made.line.label for made in lines)
        ],
        "order_seed": None,
        "plan": plan,
    }
    log = [*notes(sources), *mixed.warnings(sources), *remarks]
    log += [f"{shown(each.path)}: skipped: {each.why}" for each in skipped]
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise usage(f"{path} is not empty", "choose another --out")
    try:
        _fill(path, sources, lines, run, log)
    except BaseException:
        _undo(path)
        raise
    return path


def _fill(
    path: Path, sources: list[Reading], lines: list[Made], head: Json, log: list[str]
) -> None:
    """Write the files one after another, line by line: none of them is held as a whole."""
    (path / ORIGINALS).mkdir()
    head["sources"] = [_keep(source, path / ORIGINALS) for source in sources]
    versions, host = _versions(sources), typed(head["host"], Host)
    with (path / RECORDS).open("wb") as file:
        for made in lines:
            record = made.line.record
            if record is not None:
                origin = _source(record.source or Source(), made.source, versions, host)
                record = replace(record, schema=RECORD, source=origin)
            file.write(json.encode(replace(made.line, record=record)) + b"\n")
    (path / LOG).write_text("".join(f"{line}\n" for line in log), encoding="utf-8")
    (path / HEAD_FILE).write_bytes(json.format(json.encode(head), indent=1) + b"\n")


def _undo(path: Path) -> None:
    """Remove what was written into a folder that was empty, and nothing else."""
    shutil.rmtree(path / ORIGINALS, ignore_errors=True)
    for name in (RECORDS, LOG, HEAD_FILE):
        (path / name).unlink(missing_ok=True)
    with suppress(OSError):
        path.rmdir()


def notes(sources: list[Reading]) -> list[str]:
    """What the reader of a file had to pass over, with the file's name."""
    return [
        f"{clean(source.path.name)}: {note}" for source in sources for note in source.found.notes
    ]


def _lines(sources: list[Reading]) -> Iterator[Made]:
    """Yield all lines in the order of the files.

    What the files do not number is numbered here: the same trial again is its next repeat.
    """
    beside = any(not trial.is_probe for source in sources for trial in source.trials)
    varying = _varying(sources)
    index, following = 0, Counter[str]()
    for source in sources:
        for own in source.trials:
            # Beside trials, the speed of a disk is what they are held against; alone, it is what
            # was measured.
            for trial in _as_ceilings(own) if beside and own.is_probe else [own]:
                line = _line(index, trial, source, varying)
                if trial.repeat is None:
                    key = _key(line)
                    line = replace(line, repeat=following[key])
                    following[key] += 1
                yield Made(line, source)
                index += 1


def _marked(source: Reading) -> Reading:
    """Add what read it as a factor: the same setting in two tools is no repeat.

    A factor that is called like a column of every table gets a name of its own.
    """

    def marked(factors: Factors) -> Factors:
        renamed: Factors = {
            f"{name}_" if name in HEAD and name not in LEADING else name: level
            for name, level in factors.items()
        }
        return renamed | {TOOL: source.format}

    trials = [replace(trial, factors=marked(trial.factors)) for trial in source.trials]
    return dataclasses.replace(source, trials=trials)


def _line(index: int, trial: Trial, source: Reading, varying: list[str]) -> Line:
    record = trial.record
    if record is not None:
        # What is known of how it ran: what the record says, and every factor.
        stated = {name: level for name, level in trial.factors.items() if name != TOOL}
        record = replace(record, trial={**record.trial, **stated})
    return Line(
        index=index,
        role=trial.role,
        name=trial.name,
        label=source.found.label,
        repeat=trial.repeat or 0,
        factors=_factors(trial.factors, source.found.label, varying),
        status="failed" if record is None else "ok",
        record=record,
        error=trial.error,
    )


def _source(own: Source, source: Reading, versions: dict[str, str | None], host: Host) -> Source:
    """Where a record is from; the tool's version and the memory may stand in a file beside it."""
    stated = {
        "origin": "imported",
        "file": clean(source.path.name),
        "sha256": source.sha256,
        "tool_version": versions.get(own.tool or ""),
        "client_memory_bytes": host.memory.total_bytes,
    }
    missing = {name: value for name, value in stated.items() if getattr(own, name) is None}
    return replace(own, **missing)


def _factors(own: Factors, label: str, varying: list[str]) -> Factors:
    target: Factors = {"target": label} if "target" in varying and own else {}
    return {**target, **{name: own[name] for name in varying if name in own}}


def _varying(sources: list[Reading]) -> list[str]:
    """Return the factors with more than one level in these files, in the order of their appearance.

    What is fixed is no factor. What only one tool states is compared within its own trials.
    """
    levels: dict[str, set[str]] = {}
    for source in sources:
        for trial in source.trials:
            stated = {} if trial.is_probe else {"target": source.found.label, **trial.factors}
            for name, level in stated.items():
                levels.setdefault(name, set()).add(repr(level))
    for kind in {source.format for source in sources}:
        own = [
            trial.factors
            for source in sources
            if source.format == kind
            for trial in source.trials
            if not trial.is_probe
        ]
        for name in {name for factors in own for name in factors}:
            if any(name not in factors for factors in own):
                levels[name].add("missing")
    return [name for name, seen in levels.items() if name in LEADING or len(seen) > 1]


def _as_ceilings(trial: Trial) -> Iterator[Trial]:
    """Yield one ceiling per phase, under the name of the phase."""
    assert trial.record is not None
    for phase in trial.record.phases:
        alone = replace(trial.record, phases=[phase])
        yield replace(trial, role="ceiling", name=phase.name, factors={}, record=alone)


def _refuse_doubles(lines: list[Made]) -> None:
    seen: set[str] = set()
    for line in (made.line for made in lines):
        key = _key(line)
        if key in seen:
            what = f"repeat {line.repeat + 1} of {line.factors or line.name}"
            raise usage(
                f"{what} on `{line.label}` is there twice",
                "name the files apart: savemark import a=FILE b=FILE",
            )
        seen.add(key)


def _key(line: Planned) -> str:
    return repr((line.role, line.name, line.label, line.repeat, line.factors))


def _plan(sources: list[Reading], lines: list[Made]) -> tuple[list[Planned], list[str]]:
    """Return what is there, and after it what the design behind the files wanted and is not.

    Where that would be more than a run holds it is left out, with a remark.
    """
    plan = [
        Planned(**{name: getattr(made.line, name) for name in Planned.__struct_fields__})
        for made in lines
    ]
    there, varying = {_key(line) for line in plan}, _varying(sources)
    remarks = []
    for source in sources:
        found = source.found
        first = next((trial for trial in source.trials if not trial.is_probe), None)
        if first is None or not found.levels:
            continue
        wanted_trials = found.repeats * prod(len(levels) for levels in found.levels.values())
        if len(plan) + wanted_trials > limits.MOST_IMPORTED:
            many = (
                f"its design has {wanted_trials} trials, and a run at most {limits.MOST_IMPORTED}"
            )
            remarks.append(f"{clean(source.path.name)}: {many}: what is missing is not listed")
            continue
        rest = {k: v for k, v in first.factors.items() if k not in found.levels}
        for repeat, *cell in product(range(found.repeats), *found.levels.values()):
            own = {**rest, **dict(zip(found.levels, cell, strict=True))}
            wanted = Planned(
                index=len(plan),
                role="trial",
                name=first.name,
                label=found.label,
                repeat=repeat,
                factors=_factors(own, found.label, varying),
            )
            if _key(wanted) not in there:
                plan.append(wanted)
    return plan, remarks


def _study(sources: list[Reading], plan: list[Planned]) -> Json:
    trials = [planned.factors for planned in plan if planned.role == "trial"]
    names = dict.fromkeys(name for factors in trials for name in factors)
    factors: dict[str, list[Level]] = {
        name: list(dict.fromkeys(own[name] for own in trials if name in own)) for name in names
    }
    fixed = {
        name: level
        for source in sources
        for trial in source.trials
        for name, level in trial.factors.items()
        if name not in factors and name != TOOL
    }
    studies = {source.found.study for source in sources if source.found.study}
    return {
        "name": studies.pop() if len(studies) == 1 else "imported",
        "title": f"Imported from {_titles(sources)}",
        "repeats": max((planned.repeat + 1 for planned in plan), default=0),
        "order": "listed",
        "defaults": {},
        "trial": fixed,
        "factors": {name: sorted(levels, key=_level) for name, levels in factors.items()},
    }


def _titles(sources: list[Reading]) -> str:
    names = [clean(source.path.name) for source in sources]
    more = f" and {len(names) - FEW} more files" if len(names) > FEW else ""
    return ", ".join(names[:FEW]) + more


def _level(level: object) -> tuple[bool, object]:
    """Order numbers by value and keep all else as it came: `sorted` is stable."""
    known = isinstance(level, int | float)
    return not known, level if known else 0


def _host(sources: list[Reading]) -> Json:
    host: Json = {}
    for source in sources:
        host |= source.found.host
    versions = _versions(sources)
    return host | ({"tools": versions} if versions else {})


def _versions(sources: list[Reading]) -> dict[str, str | None]:
    """The versions of tools by name; one file may know what another does not."""
    pairs = [pair for source in sources for pair in source.found.tools.items()]
    return {**dict(pairs), **{name: version for name, version in pairs if version is not None}}


def _keep(source: Reading, folder: Path) -> Json:
    """Copy the original, unchanged, and say which it is."""
    own = PurePath(clean(source.path.name))
    name, number = own.name, 2
    while (folder / name).exists():
        name, number = f"{own.stem}-{number}{own.suffix}", number + 1
    digest = hashlib.sha256()
    with (
        untrusted.opened(source.path, limits.LARGEST_FILE) as file,
        (folder / name).open("wb") as to,
    ):
        while part := file.read(untrusted.STEP):
            digest.update(part)
            to.write(part)
    if digest.hexdigest() != source.sha256:
        raise usage(f"{shown(source.path)} changed while it was read", "import it when it is done")
    return {
        "file": f"{ORIGINALS}/{name}",
        "sha256": source.sha256,
        "bytes": source.size_bytes,
        "format": source.format,
        "label": source.found.label,
    }
