"""Summaries of the acceptance study lucaparisi91/filesystem_benchmarks: its `.dat` and IO500 mean.

They hold rates alone, without bytes or times. IOR's are MiB/s divided by 1000 under an axis that
says GiB/s, and are taken at their label here: beside the reports that they were made of, HC-21
finds the difference. Metadata rates are means over repeats, in thousands per second.
"""

from __future__ import annotations

import csv
import re
from typing import Any, NoReturn

from savemark import limits
from savemark.errors import usage
from savemark.records.imported import Imported
from savemark.records.io500 import PHASES as IO500
from savemark.records.run import Json
from savemark.tools._numbers import GIB, number, whole
from savemark.tools.source import Source

NAME = "acceptance"
WHAT = "summaries of the acceptance study (.dat, io500_agg.txt)"
IOR = {"op", "bandwidth", "nodes", "tasks", "stripes", "segments"}
METADATA = {"operation", "bandwidth", "nodes", "files"}
AVERAGES = re.compile(r"metric average std\s*$")
OPERATIONS = {"creation": "create", "removal": "remove", "stat": "stat", "read": "read"}
TOOLS = {"ior": "ior", "metadata": "mdtest", "io500": "io500"}


def recognises(source: Source) -> bool:
    """Whether the first line is the header of one of the tables."""
    return _kind(source) is not None


def parse(source: Source) -> Imported:
    """Return an entry per row, with a phase that has a rate and no time."""
    kind = _kind(source) or ""
    notes: list[str] = []
    if kind == "io500":
        entries = source.few(_average(source, place, line) for place, line in _rows(source))
    else:
        columns = source.lines[0].split(",")
        entries = []
        for place, line in _rows(source):
            values = next(csv.reader([line]))
            if len(values) != len(columns):
                _fail(source, place, f"{len(values)} fields where the header has {len(columns)}")
            # The second column of the same name is the deviation.
            row = dict(reversed(list(zip(columns, values, strict=True))))
            if row.get("bandwidth") == "average" or not (row.get("op") or row.get("operation")):
                continue
            of = _ior if kind == "ior" else _metadata
            source.limit(len(entries) + 1, limits.MOST_IMPORTED, "trials")
            entries.append(_entry(kind, *of(source, place, row, notes)))
    if not entries:
        raise usage(f"{source.path}: no row after the header")
    # singleShared-write and -read are the two phases of one table.
    table = re.sub(r"-(write|read)$", "", source.path.stem)
    for entry in entries:
        entry["factors"]["table"] = table
    return Imported(label="published", entries=entries, notes=notes)


def _kind(source: Source) -> str | None:
    first = source.lines[0][: limits.LONGEST_TEXT]
    columns = set(first.strip().split(","))
    if columns >= IOR:
        return "ior"
    if columns >= METADATA:
        return "metadata"
    return "io500" if AVERAGES.match(first) else None


def _rows(source: Source) -> list[tuple[int, str]]:
    lines = enumerate(source.lines[1:], start=2)
    return [(place, line) for place, line in lines if line.strip(" ,")]


def _ior(source: Source, place: int, row: Json, notes: list[str]) -> tuple[Json, Json]:
    if row["op"] not in ("write", "read"):
        _fail(source, place, f"`{row['op']}` is neither write nor read")
    named = {"nodes": "nodes", "tasks": "ranks", "stripes": "stripes", "segments": "segments"}
    factors = {ours: whole(row[theirs]) for theirs, ours in named.items()}
    wrong = [name for name, level in factors.items() if level is None or level < 1]
    if wrong:
        notes.append(
            f"line {place}: {wrong[0]} is {row.get(wrong[0])!r}; nobody can say which run its "
            f"{row['bandwidth']} is of, so that row cannot be computed again"
        )
    known = {name: level for name, level in factors.items() if name not in wrong}
    return known, {"name": row["op"], "reported_bytes_per_s": _rate(source, place, row) * GIB}


def _metadata(source: Source, place: int, row: Json, _: list[str]) -> tuple[Json, Json]:
    if row["operation"] not in OPERATIONS:
        _fail(source, place, f"`{row['operation']}` is no operation on metadata")
    factors = {"nodes": whole(row["nodes"]), "files": whole(row["files"])}
    phase = {"name": OPERATIONS[row["operation"]], "statistic": "mean"}
    return factors, phase | {"reported_ops_per_s": _rate(source, place, row) * 1000}


def _average(source: Source, place: int, line: str) -> Json:
    words = line.split()
    if len(words) != 3 or words[0] not in IO500:
        _fail(source, place, f"`{line.strip()[:60]}` is no phase of IO500 with mean and deviation")
    test, name = IO500[words[0]]
    rate = _rate(source, place, {"bandwidth": words[1]})
    known: Any = {"reported_bytes_per_s": rate * GIB}
    if not words[0].startswith("ior"):
        known = {"reported_ops_per_s": rate * 1000}
    return _entry("io500", {"test": test}, {"name": name, "statistic": "mean", **known})


def _rate(source: Source, place: int, row: Json) -> float:
    value = number(row["bandwidth"])
    if value is None or value < 0:
        _fail(source, place, f"`{row['bandwidth']}` is no rate")
    return value


def _entry(kind: str, factors: Json, phase: Json) -> Json:
    whole_phase = {"time_base": "wall", "elapsed_ns": None, **phase}
    if phase["name"] == "write":
        whole_phase["contract"] = "unknown"
    record = {"trial": {}, "source": {"tool": TOOLS[kind]}, "phases": [whole_phase]}
    return {"role": "trial", "name": NAME, "factors": factors, "record": record}


def _fail(source: Source, place: int, message: str) -> NoReturn:
    raise usage(f"{source.path}:{place}: {message}", "the file is damaged there")
