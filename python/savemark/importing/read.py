"""How a file finds the format that can read it."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

from savemark.errors import usage
from savemark.importing.formats import formats
from savemark.importing.plausible import checked
from savemark.records.imported import Imported, Reading
from savemark.tools import Tool
from savemark.tools.source import Source
from savemark.untrusted import shown

PEEK = 8192  # bytes by which a file is told that no format knows


def read_source(argument: str) -> Reading:
    """Read `[LABEL=]PATH` with the format that recognises its content; a usage error if none."""
    label, path = named(argument)
    reading = read(Source.of(path))
    return replace(reading, found=replace(reading.found, label=label or reading.found.label))


def read(source: Source) -> Reading:
    """Read a file with the format that recognises its content; a usage error if none."""
    for name, module in formats().items():
        if module.recognises(source):
            imported, trials = checked(source, _parsed(module, source))
            return Reading(source.path, source.sha256, len(source.data), name, imported, trials)
    raise usage(f"{shown(source.path)}: {_kind_of_content(source)}", known())


def _parsed(module: Tool, source: Source) -> Imported:
    try:
        return module.parse(source)
    except csv.Error as error:
        raise usage(f"{shown(source.path)}: {error}", "the file is damaged") from None


def _kind_of_content(source: Source) -> str:
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
    return f"it reads: {'; '.join(module.WHAT for module in formats().values())}"


def named(argument: str) -> tuple[str, Path]:
    """`LABEL=PATH` as its parts; a path alone has the label "" (the file says where it ran)."""
    label, equals, rest = argument.partition("=")
    if equals and "/" not in label and not Path(argument).exists():
        if not label or not rest:
            raise usage(f"`{argument}` is not LABEL=PATH", "for example: s3=results.csv")
        return label, Path(rest)
    return "", Path(argument)
