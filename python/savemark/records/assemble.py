"""Imported files as one run folder: entries, plan, study, host, and the originals beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from savemark.errors import usage
from savemark.records import mixed
from savemark.records.frame import HEAD
from savemark.records.gather import Skipped
from savemark.records.imported import PROBE, Reading
from savemark.records.run import Json

ALWAYS = ("codec", "streams")
TOOL = "tool"  # the factor that says which format a trial was read from
FEW = 5  # so many files are named in a title


def write_folder(
    sources: list[Reading], path: Path, head: Json, skipped: Sequence[Skipped] = ()
) -> Path:
    """Write a new run folder at `path`; `run.json` comes last, so that it is whole or no run.

    `head` has run_id, savemark_version, started_at and command, and may have parts of the study and
    the host that no file states (`given`). What was `skipped` is kept with its reason. Files that
    number the same trial twice, and a path that is not empty, are usage errors.
    """
    sources = [_marked(source) for source in sources]
    given = head.get("given") or {}
    head = {name: value for name, value in head.items() if name != "given"}
    host = {**_host(sources), **(given.get("host") or {})}
    entries = list(_entries(sources, host))
    _number_repeats(entries)
    _refuse_doubles(entries)
    plan = _plan(sources, entries)
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise usage(f"{path} is not empty", "choose another --out")
    kept = [_keep(source, path / "originals") for source in sources]
    lines = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in entries)
    (path / "records.jsonl").write_text(lines, encoding="utf-8")
    said = [*notes(sources), *mixed.warnings(sources)]
    said += [f"{each.path}: skipped: {each.why}" for each in skipped]
    (path / "log.txt").write_text("".join(f"{line}\n" for line in said), encoding="utf-8")
    whole = {
        "schema": 1,
        **head,
        "origin": "imported",
        "sources": kept,
        "skipped": [{"file": str(each.path), "why": each.why} for each in skipped],
        "study": _study(sources, plan or entries) | (given.get("study") or {}),
        "host": host,
        "targets": [
            {"label": label, "target": label}
            for label in dict.fromkeys(entry["label"] for entry in entries)
        ],
        "order_seed": None,
        "plan": plan,
    }
    text = json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
    (path / "run.json").write_text(text, encoding="utf-8")
    return path


def notes(sources: list[Reading]) -> list[str]:
    """What the reader of a file had to pass over, with the file's name."""
    return [f"{source.path.name}: {note}" for source in sources for note in source.found.notes]


def _entries(sources: list[Reading], host: Json) -> Iterator[Json]:
    """Yield all lines in the order of the files; each says which file it is from."""
    beside = any(not _is_probe(e) for source in sources for e in source.found.entries)
    varying, around = _varying(sources), (_versions(sources), host)
    index = 0
    for source in sources:
        for own in source.found.entries:
            # Beside trials, the speed of a disk is what they are held against; alone, it is what
            # was measured.
            for entry in _as_ceilings(own) if beside and _is_probe(own) else [own]:
                yield _line(entry, source, around, varying) | {"index": index}
                index += 1


def _marked(source: Reading) -> Reading:
    """Add what read it as a factor: the same setting in two tools is no repeat.

    A factor that is called like a column of every table gets a name of its own.
    """
    entries = [
        {
            **entry,
            "factors": {
                f"{name}_" if name in HEAD and name not in ALWAYS else name: level
                for name, level in entry["factors"].items()
            }
            | {TOOL: source.format},
        }
        for entry in source.found.entries
    ]
    return replace(source, found=replace(source.found, entries=entries))


def _line(
    entry: Json, source: Reading, around: tuple[dict[str, str | None], Json], varying: list[str]
) -> Json:
    record = entry.get("record")
    if record is not None:
        stated = {name: level for name, level in entry["factors"].items() if name != TOOL}
        trial = {**(record.get("trial") or {}), **stated}
        known = _source(record.get("source") or {}, source, *around)
        record = {"schema": 1, **record, "trial": trial, "source": known}
    return {
        **{name: entry[name] for name in ("role", "name")},
        "repeat": entry.get("repeat"),
        "label": source.found.label,
        "factors": _factors(entry["factors"], source.found.label, varying),
        "status": "ok" if record is not None else "failed",
        "record": record,
        "error": entry.get("error"),
    }


def _source(own: Json, source: Reading, versions: dict[str, str | None], host: Json) -> Json:
    """Where a record is from; the tool's version and the memory may stand in a file beside it."""
    memory = (host.get("memory") or {}).get("total_bytes")
    known = {"tool_version": versions.get(own.get("tool", "")), "client_memory_bytes": memory}
    known |= {name: value for name, value in own.items() if value is not None}
    where = {"file": source.path.name, "sha256": source.source.sha256}
    return {"origin": "imported", **where, **known}


def _factors(own: Json, label: str, varying: list[str]) -> Json:
    target = {"target": label} if "target" in varying and own else {}
    return {**target, **{name: own[name] for name in varying if name in own}}


def _varying(sources: list[Reading]) -> list[str]:
    """Return the factors with more than one level in these files, in the order of their appearance.

    What is fixed is no factor. What only one tool states is compared within its own trials.
    """
    levels: dict[str, set[str]] = {}
    for source in sources:
        own = [entry["factors"] for entry in source.found.entries if not _is_probe(entry)]
        for factors in own:
            stated = {"target": source.found.label, **factors}
            for name, level in stated.items():
                levels.setdefault(name, set()).add(repr(level))
    formats = {source.format for source in sources}
    for kind in formats:
        trials = [
            entry["factors"]
            for source in sources
            if source.format == kind
            for entry in source.found.entries
            if not _is_probe(entry)
        ]
        for name in {name for factors in trials for name in factors}:
            if any(name not in factors for factors in trials):
                levels[name].add("missing")
    return [name for name, found in levels.items() if name in ALWAYS or len(found) > 1]


def _is_probe(entry: Json) -> bool:
    return bool(((entry.get("record") or {}).get("trial") or {}).get("workload") == PROBE)


def _as_ceilings(entry: Json) -> Iterator[Json]:
    """Yield one ceiling per phase, under the name of the phase."""
    record = entry["record"]
    for phase in record["phases"]:
        alone = {"record": {**record, "phases": [phase]}, "role": "ceiling", "factors": {}}
        yield {**entry, **alone, "name": phase["name"]}


def _number_repeats(entries: list[Json]) -> None:
    """Number what the files do not number: the same trial again is its next repeat."""
    following: dict[str, int] = {}
    for entry in entries:
        if entry["repeat"] is None:
            key = _key(entry)
            number = following.get(key, 0)
            following[key], entry["repeat"] = number + 1, number


def _refuse_doubles(entries: list[Json]) -> None:
    seen: set[str] = set()
    for entry in entries:
        key = _key(entry)
        if key in seen:
            what = f"repeat {entry['repeat'] + 1} of {entry['factors'] or entry['name']}"
            raise usage(
                f"{what} on `{entry['label']}` is there twice",
                "name the files apart: savemark import a=FILE b=FILE",
            )
        seen.add(key)


def _key(entry: Json) -> str:
    return repr((entry["role"], entry["name"], entry["label"], entry["repeat"], entry["factors"]))


def _plan(sources: list[Reading], entries: list[Json]) -> list[Json]:
    """Return what is there, and after it what the design behind the files wanted and is not."""
    fields = ("index", "role", "name", "label", "repeat", "factors")
    plan = [{name: entry[name] for name in fields} for entry in entries]
    there, varying = {_key(entry) for entry in entries}, _varying(sources)
    for source in sources:
        found = source.found
        first = next((e for e in found.entries if not _is_probe(e)), None)
        if first is None or not found.levels:
            continue
        rest = {k: v for k, v in first["factors"].items() if k not in found.levels}
        for repeat, *cell in product(range(found.repeats), *found.levels.values()):
            own = {**rest, **dict(zip(found.levels, cell, strict=True))}
            wanted = {"role": "trial", "name": first["name"], "label": found.label}
            wanted |= {"repeat": repeat, "factors": _factors(own, found.label, varying)}
            if _key(wanted) not in there:
                plan.append({"index": len(plan), **wanted})
    return plan


def _study(sources: list[Reading], plan: list[Json]) -> Json:
    trials = [item for item in plan if item["role"] == "trial"]
    names = dict.fromkeys(name for trial in trials for name in trial["factors"])
    factors: dict[str, list[Any]] = {
        name: list(dict.fromkeys(t["factors"][name] for t in trials if name in t["factors"]))
        for name in names
    }
    fixed = {
        name: level
        for source in sources
        for entry in source.found.entries
        for name, level in entry["factors"].items()
        if name not in factors and name != TOOL
    }
    studies = {source.found.study for source in sources if source.found.study}
    return {
        "name": studies.pop() if len(studies) == 1 else "imported",
        "title": f"Imported from {_titles(sources)}",
        "repeats": max((item["repeat"] + 1 for item in plan), default=0),
        "order": "listed",
        "defaults": {},
        "trial": fixed,
        "factors": {name: sorted(levels, key=_level) for name, levels in factors.items()},
    }


def _titles(sources: list[Reading]) -> str:
    names = [source.path.name for source in sources]
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
    told = [pair for source in sources for pair in source.found.tools.items()]
    return {**dict(told), **{name: version for name, version in told if version is not None}}


def _keep(source: Reading, folder: Path) -> Json:
    """Copy the original, unchanged, and say which it is."""
    folder.mkdir(exist_ok=True)
    name, number = source.path.name, 2
    while (folder / name).exists():
        name, number = f"{source.path.stem}-{number}{source.path.suffix}", number + 1
    (folder / name).write_bytes(source.source.data)
    return {
        "file": f"originals/{name}",
        "sha256": source.source.sha256,
        "bytes": len(source.source.data),
        "format": source.format,
        "label": source.found.label,
    }
