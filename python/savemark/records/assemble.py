"""Imported files as one run folder: entries, plan, study, host, and the originals beside them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from math import prod
from pathlib import Path, PurePath
from typing import Any

from savemark import limits, untrusted
from savemark.errors import usage
from savemark.records import mixed
from savemark.records.frame import HEAD
from savemark.records.imported import PROBE, Reading, Skipped
from savemark.records.run import Json
from savemark.records.versions import RECORD, RUN
from savemark.untrusted import clean, shown

ORIGINALS, RECORDS, LOG, HEAD_FILE = "originals", "records.jsonl", "log.txt", "run.json"
ALWAYS = ("codec", "streams")
TOOL = "tool"  # the factor that says which format a trial was read from
FEW = 5  # so many files are named in a title


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
    _number_repeats(lines)
    _refuse_doubles(lines)
    plan, remarks = _plan(sources, lines)
    run = {
        "schema": RUN,
        **head,
        "command": [clean(word) for word in head["command"]],
        "origin": "imported",
        "sources": [],  # once they are copied
        "skipped": [{"file": shown(each.path), "why": each.why} for each in skipped],
        "study": _study(sources, plan or lines) | (given.get("study") or {}),
        "host": {**_host(sources), **(given.get("host") or {})},
        "targets": [
            {"label": label, "target": label}
            for label in dict.fromkeys(line["label"] for line in lines)
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
        _fill(path, sources, lines, (run, log))
    except BaseException:
        _undo(path)
        raise
    return path


def _fill(path: Path, sources: list[Reading], lines: list[Json], texts: tuple[Json, Any]) -> None:
    """Write the files one after another, line by line: none of them is held as a whole."""
    run, log = texts
    (path / ORIGINALS).mkdir()
    run["sources"] = [_keep(source, path / ORIGINALS) for source in sources]
    around = (_versions(sources), run["host"])
    with (path / RECORDS).open("w", encoding="utf-8") as file:
        for line in lines:
            record = _record(line["record"], line.pop("from"), *around)
            whole = {**line, "record": record}
            file.write(json.dumps(whole, separators=(",", ":")) + "\n")
    (path / LOG).write_text("".join(f"{line}\n" for line in log), encoding="utf-8")
    with (path / HEAD_FILE).open("w", encoding="utf-8") as file:
        json.dump(run, file, indent=1, ensure_ascii=False)
        file.write("\n")


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


def _lines(sources: list[Reading]) -> Iterator[Json]:
    """Yield all lines in the order of the files; `from` says which file each is from."""
    beside = any(not _is_probe(e) for source in sources for e in source.found.entries)
    varying = _varying(sources)
    index = 0
    for source in sources:
        for own in source.found.entries:
            # Beside trials, the speed of a disk is what they are held against; alone, it is what
            # was measured.
            for entry in _as_ceilings(own) if beside and _is_probe(own) else [own]:
                yield _line(entry, source, varying) | {"index": index}
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


def _line(entry: Json, source: Reading, varying: list[str]) -> Json:
    record = entry.get("record")
    return {
        **{name: entry[name] for name in ("role", "name")},
        "repeat": entry.get("repeat"),
        "label": source.found.label,
        "factors": _factors(entry["factors"], source.found.label, varying),
        "status": "ok" if record is not None else "failed",
        "record": record and {**record, "trial": _trial(entry)},
        "error": entry.get("error"),
        "from": source,
    }


def _trial(entry: Json) -> Json:
    """Return what is known of how it ran: what the record says, and every factor."""
    stated = {name: level for name, level in entry["factors"].items() if name != TOOL}
    return {**(entry["record"].get("trial") or {}), **stated}


def _record(
    own: Json | None, source: Reading, versions: dict[str, str | None], host: Json
) -> Json | None:
    """Return a record as it is written: with its version, and where it is from."""
    if own is None:
        return None
    return {
        "schema": RECORD,
        **own,
        "source": _source(own.get("source") or {}, source, versions, host),
    }


def _source(own: Json, source: Reading, versions: dict[str, str | None], host: Json) -> Json:
    """Where a record is from; the tool's version and the memory may stand in a file beside it."""
    memory = (host.get("memory") or {}).get("total_bytes")
    known = {"tool_version": versions.get(own.get("tool", "")), "client_memory_bytes": memory}
    known |= {name: value for name, value in own.items() if value is not None}
    where = {"file": clean(source.path.name), "sha256": source.sha256}
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


def _plan(sources: list[Reading], entries: list[Json]) -> tuple[list[Json], list[str]]:
    """Return what is there, and after it what the design behind the files wanted and is not.

    Where that would be more than a run holds it is left out, with a remark.
    """
    fields = ("index", "role", "name", "label", "repeat", "factors")
    plan = [{name: entry[name] for name in fields} for entry in entries]
    there, varying = {_key(entry) for entry in entries}, _varying(sources)
    remarks = []
    for source in sources:
        found = source.found
        first = next((e for e in found.entries if not _is_probe(e)), None)
        if first is None or not found.levels:
            continue
        wanted_trials = found.repeats * prod(len(levels) for levels in found.levels.values())
        if len(plan) + wanted_trials > limits.MOST_IMPORTED:
            many = (
                f"its design has {wanted_trials} trials, and a run at most {limits.MOST_IMPORTED}"
            )
            remarks.append(f"{clean(source.path.name)}: {many}: what is missing is not listed")
            continue
        rest = {k: v for k, v in first["factors"].items() if k not in found.levels}
        for repeat, *cell in product(range(found.repeats), *found.levels.values()):
            own = {**rest, **dict(zip(found.levels, cell, strict=True))}
            wanted = {"role": "trial", "name": first["name"], "label": found.label}
            wanted |= {"repeat": repeat, "factors": _factors(own, found.label, varying)}
            if _key(wanted) not in there:
                plan.append({"index": len(plan), **wanted})
    return plan, remarks


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
    told = [pair for source in sources for pair in source.found.tools.items()]
    return {**dict(told), **{name: version for name, version in told if version is not None}}


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
