"""The files of a run folder as they are stored: read within limits, checked once, named if damaged.

`run.json` is whole or no run. Of `records.jsonl` a line that is damaged is left out and named: it
may be the last one, torn when the machine died, and what the others say is true without it.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from savemark import limits, untrusted
from savemark.errors import usage
from savemark.records import shape, versions

Json = dict[str, Any]
HEAD, RECORDS = "run.json", "records.jsonl"
MOST_NAMED = 20  # so many damaged lines are named, and the others counted


def read_head(folder: Path) -> Json:
    """Return `run.json` as the newest version has it; a usage error where it is none or damaged."""
    path = folder / HEAD
    try:
        data = untrusted.read(path, limits.LARGEST_HEAD)
    except (FileNotFoundError, NotADirectoryError):
        raise usage(
            f"{folder} is not a run folder: it has no {HEAD}",
            "name the folder that `savemark run` printed, for example savemark-runs/<time>-quick",
        ) from None
    except OSError as error:
        raise usage(f"cannot read {path}: {error.strerror}") from None
    where = untrusted.shown(path)
    try:
        head = untrusted.parse_json(data, limits.MOST_PLANNED)
        if not isinstance(head, dict):
            raise shape.Damaged("it is no object")
        head = versions.run(head, where)
        shape.HEAD(head)
    except ValueError as error:
        hint = "restore it from a copy; without it nothing says what was run"
        raise usage(f"{where} is damaged: {error}", hint) from None
    if len(head.get("plan") or []) > limits.MOST_TRIALS:
        raise usage(f"{where}: more than {limits.MOST_TRIALS} trials", "split the run into several")
    return head


class Lines:
    """A file of records that stays open: a line is read anew at each look, so that many fit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with untrusted.opened(path, limits.LARGEST_RECORDS) as file:
            self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield each line and where it begins; a usage error for one that is too long."""
        with open(os.dup(self._descriptor), "rb") as file:  # noqa: PTH123  (a descriptor)
            file.seek(0)
            place = 0
            while line := file.readline(limits.LARGEST_LINE + 1):
                if len(line) > limits.LARGEST_LINE:
                    where = f"{untrusted.shown(self.path)}: the line at byte {place}"
                    most = f"{limits.LARGEST_LINE} bytes"
                    raise usage(f"{where} is longer than {most}", "it is no record: remove it")
                yield place, line
                place += len(line)

    def record(self, place: int, length: int) -> Json:
        """Return the record of a line that was checked before."""
        data = os.pread(self._descriptor, length, place)
        try:
            found: Json = untrusted.parse_json(data)["record"]
            return versions.record(found, untrusted.shown(self.path))
        except (ValueError, KeyError, TypeError):
            raise usage(
                f"{untrusted.shown(self.path)} was changed while it was read", "try again"
            ) from None


@dataclass(slots=True)
class Read:
    """What a file of records holds: lines that are right, with their places, and others."""

    lines: deque[tuple[Json, int, int]] = field(default_factory=deque)  # without their records
    damaged: int = 0
    named: list[str] = field(default_factory=list)


def read_lines(lines: Lines) -> Read:
    """Check every line once; one of a newer version is a usage error, for then none is read."""
    found, where, intervals = Read(), untrusted.shown(lines.path), 0
    for number, (place, line) in enumerate(lines, start=1):
        if number > 4 * limits.MOST_TRIALS:
            raise usage(f"{where} has more than {number - 1} lines", "it is no file of records")
        if not line.strip():
            continue
        try:
            item = checked(line, f"{where}:{number}")
        except ValueError as error:
            found.damaged += 1
            if len(found.named) < MOST_NAMED:
                found.named.append(f"{RECORDS}:{number}: {error}")
            continue
        intervals += _intervals(item)
        if intervals > limits.MOST_INTERVALS:
            most = f"{limits.MOST_INTERVALS} intervals of timelines"
            raise usage(f"{where}:{number}: more than {most}", "split the run into several")
        item["record"] = item.get("record") and {}
        found.lines.append((item, place, len(line)))
    return found


def checked(line: bytes, where: str) -> Json:
    """Return the object in a line; ValueError says what is damaged in it."""
    item = untrusted.parse_json(line)
    if not isinstance(item, dict):
        raise shape.Damaged("it is no object")
    if isinstance(item.get("record"), dict):
        item["record"] = versions.record(item["record"], where)
    shape.ENTRY(item)
    return item


def _intervals(item: Json) -> int:
    phases = (item.get("record") or {}).get("phases") or []
    return sum(len((phase.get("timeline") or {}).get("bytes") or []) for phase in phases)
