"""The files of a run folder as they are stored: read within limits, checked once, named if damaged.

`run.json` is whole or no run. Of `records.jsonl` a line that is damaged is left out and named: it
may be the last one, torn when the machine died, and what the others say is true without it.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from savemark import limits, untrusted
from savemark.errors import usage
from savemark.records import versions
from savemark.records.fields import Part
from savemark.records.head import Head, Host
from savemark.records.record import Line, Record

Json = dict[str, Any]
HEAD, RECORDS = "run.json", "records.jsonl"
MOST_NAMED = 20  # so many damaged lines are named, and the others counted


class _Body(Part):
    """A line of which the record alone is wanted."""

    record: Record


class _HostOnly(Part):
    """The part of `run.json` of which more is recorded than is computed from."""

    host: Host


WHOLE, LINE = msgspec.json.Decoder(Head), msgspec.json.Decoder(Line)
BODY = msgspec.json.Decoder(_Body)
T = TypeVar("T")


def read_head(folder: Path) -> Json:
    """Return `run.json` as it is written, in the newest version; errors as of `typed_head`."""
    return _head(folder, _written_head)


def typed_head(folder: Path) -> Head:
    """Return `run.json`; a usage error where there is none, or it is damaged or too long."""
    return _head(folder, _typed_head)


def _head(folder: Path, read: Callable[[bytes, str], T]) -> T:
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
        return read(data, where)
    except ValueError as error:
        hint = "restore it from a copy; without it nothing says what was run"
        raise usage(f"{where} is damaged: {error}", hint) from None


def _written_head(data: bytes, where: str) -> Json:
    head = untrusted.parse_json(data, limits.MOST_PLANNED)
    if not isinstance(head, dict):
        raise ValueError("it is no object")
    head = versions.run(head, where)
    _within_limits(untrusted.typed(head, Head), where)
    return head


def _typed_head(data: bytes, where: str) -> Head:
    try:
        head = untrusted.decode(data, WHOLE, limits.MOST_PLANNED)
    except ValueError:
        head = None  # perhaps a newer version, of which nothing else is known
    if head is None or head.schema != versions.RUN:
        head = untrusted.typed(_written_head(data, where), Head)
    return _within_limits(head, where)


def _within_limits(head: Head, where: str) -> Head:
    untrusted.typed({"host": head.host}, _HostOnly)
    if len(head.plan) > limits.MOST_TRIALS:
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

    def record(self, place: int, length: int) -> Record:
        """Return the record of a line that was checked before."""
        data, where = os.pread(self._descriptor, length, place), untrusted.shown(self.path)
        try:
            record = untrusted.decode(data, BODY).record
            if not versions.reads_as_newest(record.schema):
                record = checked(data, where).record or record
        except ValueError:
            raise usage(f"{where} was changed while it was read", "try again") from None
        return record


@dataclass(slots=True)
class Damage:
    """The lines of a file of records that could not be read."""

    count: int = 0
    named: list[str] = field(default_factory=list)  # the first: `records.jsonl:17: why`


def read_lines(lines: Lines, damage: Damage) -> Iterator[tuple[Line, int, int]]:
    """Yield each line that is right, with its place and length; count the others in `damage`.

    One of a newer version is a usage error, for then none is read.
    """
    where, intervals = untrusted.shown(lines.path), 0
    for number, (place, text) in enumerate(lines, start=1):
        if number > 4 * limits.MOST_TRIALS:
            raise usage(f"{where} has more than {number - 1} lines", "it is no file of records")
        if not text.strip():
            continue
        try:
            line = checked(text, f"{where}:{number}")
        except ValueError as error:
            damage.count += 1
            if len(damage.named) < MOST_NAMED:
                damage.named.append(f"{RECORDS}:{number}: {error}")
            continue
        phases = line.record.phases if line.record else ()
        intervals += sum(len(phase.timeline.bytes) for phase in phases if phase.timeline)
        if intervals > limits.MOST_INTERVALS:
            most = f"{limits.MOST_INTERVALS} intervals of timelines"
            raise usage(f"{where}:{number}: more than {most}", "split the run into several")
        yield line, place, len(text)


def checked(text: bytes, where: str) -> Line:
    """Return a line in the newest version; ValueError says what is damaged in it."""
    try:
        line = untrusted.decode(text, LINE)
    except ValueError:
        pass  # perhaps a newer version, of which nothing else is known
    else:
        if line.record is None or versions.reads_as_newest(line.record.schema):
            return line
    written = untrusted.parse_json(text)
    if not isinstance(written, dict):
        raise ValueError("it is no object")
    if isinstance(written.get("record"), dict):
        written["record"] = versions.record(written["record"], where)
    return untrusted.typed(written, Line)
