"""What an imported file says, and how a file finds the format that can read it.

What a file does not say stays absent: an imported number has no bytes, no device counters and no
verified restore unless its tool recorded them, and the checks say so.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from savemark.errors import usage
from savemark.records.run import Json
from savemark.untrusted import shown

if TYPE_CHECKING:
    from savemark.tools import Tool
    from savemark.tools.source import Source

# The workload of an entry that measures a place by itself: beside trials, it is their ceiling.
PROBE = "probe"
PEEK = 8192  # bytes by which a file is told that no format knows


@dataclass(frozen=True, slots=True)
class Imported:
    """What one file says.

    An entry is a line of `records.jsonl` without index and label: role, name, factors, and a
    record, or an error where the file holds a trial without a result. `repeat` is in it only where
    the file numbers its runs; without it, entries of the same factors are repeats of each other, in
    the order of the files. `levels` are the factors of the design behind the file with all their
    levels, and `repeats` how often it runs: what the file lacks of that is reported as missing.
    """

    label: str = ""  # where it ran, as far as the file or its name say
    entries: list[Json] = field(default_factory=list)
    levels: dict[str, list[Any]] = field(default_factory=dict)
    repeats: int = 0
    study: str = ""  # the shipped study that asks the same question, if there is one
    host: Json = field(default_factory=dict)
    tools: dict[str, str | None] = field(default_factory=dict)  # versions; None: not known
    notes: list[str] = field(default_factory=list)
    identity: str = ""  # of the run: two files of one identity tell of the same run
    beside: str = ""  # the file of the same folder that tells of the same run, and better


@dataclass(frozen=True, slots=True)
class Reading:
    """An imported file, and what it says."""

    path: Path
    sha256: str
    size_bytes: int
    format: str
    found: Imported
    placed: bool = False  # whether somebody has said where it ran: its label is no folder's name


def read_source(argument: str) -> Reading:
    """Read `[LABEL=]PATH` with the format that recognises its content; a usage error if none."""
    from savemark.tools.source import Source

    label, path = named(argument)
    reading = read(Source.of(path))
    return replace(reading, found=replace(reading.found, label=label or reading.found.label))


def read(source: Source) -> Reading:
    """Read a file with the format that recognises its content; a usage error if none."""
    from savemark.records.importers import formats
    from savemark.records.plausible import checked

    for name, module in formats().items():
        if module.recognises(source):
            found = checked(source, _parsed(module, source))
            return Reading(source.path, source.sha256, len(source.data), name, found)
    raise usage(f"{shown(source.path)}: {_what(source)}", known())


def _parsed(module: Tool, source: Source) -> Imported:
    try:
        return module.parse(source)
    except csv.Error as error:
        raise usage(f"{shown(source.path)}: {error}", "the file is damaged") from None


def _what(source: Source) -> str:
    """Why it is no result file, as far as that can be seen."""
    data = source.data[:PEEK]
    if not data.strip():
        return "it is empty"
    if data.startswith(b"\x00\x05\x16\x07"):
        return "it holds attributes of a file on macOS (AppleDouble), and no data"
    if b"\n" not in data.strip() and re.fullmatch(
        rb"(\.{0,2}/)?[\w. -]+(/[\w. -]+)+", data.strip()
    ):
        return (
            f"it is a symbolic link saved as text: it holds the path {source.head.strip()!r} only"
        )
    if b"\x00" in data:
        return "it is binary, and of no kind that savemark knows"
    return "not a result file that savemark knows"


def known() -> str:
    """What can be read, in a sentence."""
    from savemark.records.importers import formats

    return f"it reads: {'; '.join(module.WHAT for module in formats().values())}"


def named(argument: str) -> tuple[str, Path]:
    """`LABEL=PATH` as its parts; a path alone has the label "" (the file says where it ran)."""
    label, equals, rest = argument.partition("=")
    if equals and "/" not in label and not Path(argument).exists():
        if not label or not rest:
            raise usage(f"`{argument}` is not LABEL=PATH", "for example: s3=results.csv")
        return label, Path(rest)
    return "", Path(argument)
