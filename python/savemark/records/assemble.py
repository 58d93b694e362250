"""Imported files as one run folder: entries, plan, study, host, and the originals beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from savemark.errors import usage
from savemark.records.imported import PROBE, Reading
from savemark.records.run import Json

ALWAYS = ("codec", "streams")


def write_folder(sources: list[Reading], path: Path, head: Json) -> Path:
    """Write a new run folder at `path`; `run.json` comes last, so that it is whole or no run.

    `head` has run_id, savemark_version, started_at and command. Files that name the same trial
    twice, and a path that is not empty, are usage errors.
    """
    entries = list(_entries(sources))
    _number_repeats(entries)
    _refuse_doubles(entries)
    plan = _plan(sources, entries)
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise usage(f"{path} is not empty", "choose another --out")
    kept = [_keep(source, path / "originals") for source in sources]
    lines = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in entries)
    (path / "records.jsonl").write_text(lines, encoding="utf-8")
    (path / "log.txt").write_text("".join(f"{note}\n" for note in notes(sources)), encoding="utf-8")
    whole = {
        "schema": 1,
        **head,
        "origin": "imported",
        "sources": kept,
        "study": _study(sources, plan or entries),
        "host": _host(sources),
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


def _entries(sources: list[Reading]) -> Iterator[Json]:
    """Yield all lines in the order of the files; each says which file it is from."""
    beside = any(not _is_probe(e) for source in sources for e in source.found.entries)
    varying = _varying(sources)
    index = 0
    for source in sources:
        for own in source.found.entries:
            # Beside trials, the speed of a disk is what they are held against; alone, it is what
            # was measured.
            for entry in _as_ceilings(own) if beside and _is_probe(own) else [own]:
                yield _line(entry, source, sources, varying) | {"index": index}
                index += 1


def _line(entry: Json, source: Reading, sources: list[Reading], varying: set[str]) -> Json:
    record = entry.get("record")
    if record is not None:
        trial = {**(record.get("trial") or {}), **entry["factors"]}
        known = _source(record.get("source") or {}, source, sources)
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


def _source(own: Json, source: Reading, sources: list[Reading]) -> Json:
    """Where a record is from; the tool's version and the memory may stand in a file beside it."""
    versions = _versions(sources)
    memory = (_host(sources).get("memory") or {}).get("total_bytes")
    known = {"tool_version": versions.get(own.get("tool", "")), "client_memory_bytes": memory}
    known |= {name: value for name, value in own.items() if value is not None}
    return {"origin": "imported", "sha256": source.source.sha256, **known}


def _factors(own: Json, label: str, varying: set[str]) -> Json:
    target = {"target": label} if "target" in varying and own else {}
    return {**target, **{name: level for name, level in own.items() if name in varying}}


def _varying(sources: list[Reading]) -> set[str]:
    """Return the factors with more than one level in these files; what is fixed is no factor."""
    trials = [
        {"target": source.found.label, **entry["factors"]}
        for source in sources
        for entry in source.found.entries
        if not _is_probe(entry)
    ]
    names = {name for trial in trials for name in trial}
    return {n for n in names if n in ALWAYS or len({repr(t.get(n)) for t in trials}) > 1}


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
            # The order of the factors is that of the entries, or the same cell would be another.
            ordered = {name: own[name] for name in first["factors"]}
            wanted |= {"repeat": repeat, "factors": _factors(ordered, found.label, varying)}
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
        if name not in factors
    }
    studies = {source.found.study for source in sources if source.found.study}
    return {
        "name": studies.pop() if len(studies) == 1 else "imported",
        "title": f"Imported from {', '.join(source.path.name for source in sources)}",
        "repeats": max((item["repeat"] + 1 for item in plan), default=0),
        "order": "listed",
        "defaults": {},
        "trial": fixed,
        "factors": {name: sorted(levels, key=_level) for name, levels in factors.items()},
    }


def _level(level: object) -> tuple[bool, object]:
    """Order numbers by value and keep words as they came: `sorted` is stable."""
    return isinstance(level, str), 0 if isinstance(level, str) else level


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
