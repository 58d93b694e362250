"""Whether files that count as repeats of one setting may be of different systems.

Nobody has said where they ran (no LABEL=, no {target}), and they lie in different folders or name
different file systems. Only the reader knows, so it is said, and how to tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from savemark.records.imported import Reading

NAMED = 3  # so many places are named
# The file system is told by so many parts of a path: /mnt/nvme, /lustre/project.
DEPTH = 3


@dataclass
class _Repeats:
    """Where the files of one setting are, and where they say that they ran."""

    folders: dict[Path, None] = field(default_factory=dict)
    places: dict[str, None] = field(default_factory=dict)


def warnings(readings: Sequence[Reading]) -> list[str]:
    """Return a sentence per label under which different systems may be mixed."""
    differences: dict[str, str] = {}
    for label, repeats in _groups(readings):
        if len(repeats.places) > 1:
            differ = f"name different places ({_some(list(repeats.places))})"
        elif len(repeats.folders) > 1:
            differ = f"lie in different folders ({_some(_apart(list(repeats.folders)))})"
        else:
            continue
        differences.setdefault(label, differ)
    return [
        f"files that count as repeats of one setting on `{label}` {differ}; if these are different "
        "systems, tell them apart: LABEL=PATH for each, or --factors '{target}/*'"
        for label, differ in differences.items()
    ]


def _groups(readings: Sequence[Reading]) -> list[tuple[str, _Repeats]]:
    groups: dict[tuple[str, str, str], _Repeats] = {}
    for reading in readings:
        for trial in () if reading.placed else reading.trials:
            if trial.repeat is not None:
                continue  # the file numbers its runs: another file's would be refused
            key = reading.found.label, reading.format, repr(sorted(trial.factors.items()))
            group = groups.setdefault(key, _Repeats())
            group.folders[reading.path.parent] = None
            source = trial.record.source if trial.record else None
            if system := _system(source.place if source else None):
                group.places[system] = None
    return [(label, group) for (label, _, _), group in groups.items()]


def _system(place: str | None) -> str | None:
    """Return the part of a directory, or of a URL, that tells of the file system or bucket."""
    if place is None:
        return None
    if "://" in place:
        return "/".join(place.split("/")[:3])
    path = PurePosixPath(place)
    return str(PurePosixPath(*path.parts[:DEPTH])) if path.is_absolute() else None


def _apart(folders: list[Path]) -> list[str]:
    """Return the folders by the part of their paths in which they differ."""
    common = 0
    while len({folder.parts[common : common + 1] for folder in folders}) == 1:
        common += 1
    return [str(Path(*folder.parts[common:])) for folder in folders]


def _some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
