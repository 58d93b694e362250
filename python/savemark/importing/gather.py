"""Files and folders to import: what each of them says, and why some are left out.

A file that is named must be readable; of a folder every file is accounted for, as imported or as
skipped with its reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from savemark import limits
from savemark.errors import SavemarkError, usage
from savemark.importing.patterns import Pattern, apply
from savemark.importing.read import named, read
from savemark.records.imported import Reading, Skipped
from savemark.tools.source import Source
from savemark.untrusted import clean, shown


def gather(
    arguments: Sequence[str], pattern: Pattern | None = None
) -> tuple[list[Reading], list[Skipped]]:
    """Read `[LABEL=]PATH…`; a usage error where a named file is none, or nothing is left."""
    gathered = _Found([], [])
    for argument in arguments:
        label, path = named(argument)
        if not path.is_dir():
            reading = read(Source.of(path))
            gathered.add(_labelled(reading, label, "", PurePath(path.name), pattern))
            continue
        folder = path.resolve().name
        for file in _files(path):
            try:
                reading = read(Source.of(file))
            except SavemarkError as error:
                gathered.skip(file, error.message)
            else:
                inside = PurePath(folder, file.relative_to(path))
                gathered.add(_labelled(reading, label, folder, inside, pattern))
    kept, doubles = _once(gathered.readings)
    if not kept:
        raise _nothing(arguments, gathered.skipped)
    return kept, gathered.skipped + doubles


@dataclass(slots=True)
class _Found:
    """What was found so far, within the limits of one run."""

    readings: list[Reading]
    skipped: list[Skipped]
    trials: int = 0

    def add(self, reading: Reading) -> None:
        self.readings.append(reading)
        self.trials += len(reading.trials)
        if self.trials > limits.MOST_IMPORTED:
            upto = f"up to {shown(reading.path)} there are more than {limits.MOST_IMPORTED} trials"
            raise usage(upto, "import fewer files at a time")
        self._count()

    def skip(self, file: Path, why: str) -> None:
        for name in (str(file), shown(file)):
            why = why.removeprefix(f"{name}: ")
        self.skipped.append(Skipped(file, clean(why)))
        self._count()

    def _count(self) -> None:
        if len(self.readings) + len(self.skipped) > limits.MOST_FILES:
            raise usage(f"more than {limits.MOST_FILES} files", "import fewer folders at a time")


def _nothing(arguments: Sequence[str], skipped: list[Skipped]) -> SavemarkError:
    if not skipped:
        why = f"{', '.join(arguments)}: there is no file in it"
        return usage(why, "name result files, folders that hold some, or a run (it has a run.json)")
    first = skipped[0]
    return usage(
        f"none of {len(skipped)} files is a result file that savemark knows",
        f"the first is {shown(first.path)}: {first.why}",
    )


def _files(folder: Path) -> Iterator[Path]:
    """Yield all files below, in the order of their names."""
    for place, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(place, name) for name in sorted(names))


def _labelled(
    reading: Reading, label: str, folder: str, inside: PurePath, pattern: Pattern | None
) -> Reading:
    """Add the label that was asked for, else the file's own, else the folder's; and the factors."""
    stated = pattern.read(inside) if pattern else None
    if pattern and stated is None:
        note = f"its name does not fit {pattern.text}: it has no factors of it"
        notes = [*reading.found.notes, note]
        reading = replace(reading, found=replace(reading.found, notes=notes))
    elif stated is not None:
        reading = apply(reading, stated)
    named = label or reading.found.label
    found = replace(reading.found, label=named or folder or "imported")
    return replace(reading, found=found, placed=bool(named))


def _once(readings: list[Reading]) -> tuple[list[Reading], list[Skipped]]:
    """Leave out what tells of a run that another file tells of as well."""
    kept: list[Reading] = []
    doubles: list[Skipped] = []
    paths = {reading.path for reading in readings}
    seen: dict[object, Path] = {}
    for reading in readings:
        imported, path = reading.found, reading.path
        better = path.with_name(imported.beside) if imported.beside else path
        # Equal bytes under another name are no copy but a question: HC-22 asks it.
        keys: list[object] = [(imported.label, path.name, reading.sha256)]
        keys += [(imported.label, path.parent, imported.identity)] if imported.identity else []
        twin = next((seen[key] for key in keys if key in seen), None)
        if better != path and better in paths:
            doubles.append(Skipped(path, f"{shown(better)} tells of the same run"))
        elif twin is not None:
            doubles.append(Skipped(path, f"{shown(twin)} tells of the same run"))
        else:
            kept.append(reading)
            seen.update(dict.fromkeys(keys, path))
    return kept, doubles
