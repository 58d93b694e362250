"""What an imported file says, and what is kept of the file.

What a file does not say stays absent: an imported number has no bytes, no device counters and no
verified restore unless its tool recorded them, and the checks say so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from savemark.records.record import PROBE, Trial

Json = dict[str, Any]
__all__ = ["PROBE", "Imported", "Reading", "Skipped"]


@dataclass(frozen=True, slots=True)
class Imported:
    """What one file says.

    An entry is the JSON of a `record.Trial`: with a record, or with an error where the file holds a
    trial without a result. `repeat` is in it only where the file numbers its runs; without it,
    entries of the same factors are repeats of each other, in the order of the files. `levels` are
    the factors of the design behind the file with all their levels, and `repeats` how often it
    runs: what the file lacks of that is reported as missing.
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
    """An imported file, and what it says: `found`, with its entries as `trials`."""

    path: Path
    sha256: str
    size_bytes: int
    format: str
    found: Imported
    trials: list[Trial]
    placed: bool = False  # whether somebody has said where it ran: its label is no folder's name


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is not in the run."""

    path: Path
    why: str
