"""What an imported file says, and how a file finds the format that can read it.

What a file does not say stays absent: an imported number has no bytes, no device counters and no
verified restore unless its tool recorded them, and the checks say so.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from savemark.errors import usage
from savemark.records.run import Json

MOST_BYTES = 64 << 20  # a result file is text for people; anything larger is something else
# The workload of an entry that measures a place by itself: beside trials, it is their ceiling.
PROBE = "probe"


@dataclass(frozen=True, slots=True)
class Imported:
    """What one file says.

    An entry is a line of `records.jsonl` without index and label: role, name, repeat, factors,
    and a record, or an error where the file holds a trial without a result. `levels` are the
    factors of the design behind the file with all their levels, and `repeats` how often it runs:
    what the file lacks of that is reported as missing.
    """

    label: str  # where it ran, as far as the file or its name say
    entries: list[Json] = field(default_factory=list)
    levels: dict[str, list[Any]] = field(default_factory=dict)
    repeats: int = 0
    study: str = ""  # the shipped study that asks the same question, if there is one
    host: Json = field(default_factory=dict)
    tools: dict[str, str | None] = field(default_factory=dict)  # versions; None: not known
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Source:
    """An imported file."""

    path: Path
    data: bytes
    format: str
    found: Imported

    @property
    def sha256(self) -> str:
        """The digest by which the original can always be recognised."""
        return hashlib.sha256(self.data).hexdigest()


def read_source(argument: str) -> Source:
    """Read `[LABEL=]PATH` with the format that recognises its content; a usage error if none."""
    from savemark.records.importers import formats

    label, path = _named(argument)
    data = _bytes(path)
    # utf-8-sig: spreadsheets put a mark before the name of the first column.
    text = data.decode("utf-8-sig", errors="replace")
    for name, module in formats().items():
        if module.recognise(path, text):
            found = module.read(path, text)
            return Source(path, data, name, replace(found, label=label or found.label))
    known = "; ".join(module.WHAT for module in formats().values())
    raise usage(f"{path}: not a result file that savemark knows", f"it reads: {known}")


def _named(argument: str) -> tuple[str, Path]:
    label, equals, rest = argument.partition("=")
    if equals and "/" not in label and not Path(argument).exists():
        if not label or not rest:
            raise usage(f"`{argument}` is not LABEL=PATH", "for example: s3=results.csv")
        return label, Path(rest)
    return "", Path(argument)


def _bytes(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise usage(f"{path} has {size} bytes; a result file has at most {MOST_BYTES}")
        return path.read_bytes()
    except OSError as error:
        why = "name result files: savemark import PATH…"
        raise usage(f"{path}: {error.strerror}", why) from None
