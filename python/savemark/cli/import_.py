"""`savemark import`: result files of other programs as a run of savemark's."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from savemark.cli import _units
from savemark.cli._print import echo
from savemark.untrusted import clean, shown

if TYPE_CHECKING:
    from savemark.records.imported import Reading, Skipped

FEW = 20  # so many files are listed one by one


@click.command("import", short_help="Turn other programs' result files into a run.")
@click.argument("arguments", nargs=-1, required=True, metavar="[LABEL=]PATH...")
@click.option(
    "--factors",
    metavar="PATTERN",
    help="Factors in the names: '{workload}_S{segments}_{nodes}N'; * is anything, {target} the "
    "label, and folders count.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    callback=_units.size,
    help="Memory of a client: tells reads from the storage from reads from memory.",
)
@click.option(
    "--max-read",
    metavar="RATE",
    callback=_units.rate,
    help="The most that network and devices can read: 14.7GiB/s. Faster results are blocked.",
)
@click.option("--max-write", metavar="RATE", callback=_units.rate, help="The same for writes.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    envvar="SAVEMARK_OUT",
    help="New run folder.  [default: savemark-runs/TIME-imported]",
)
def command(
    arguments: tuple[str, ...],
    factors: str | None,
    memory: float | None,
    max_read: float | None,
    max_write: float | None,
    out: Path | None,
) -> None:
    """Make one run folder of result files; `savemark report` works on it as on any other.

    Formats are recognised by content, folders are searched, and files of the same setting are
    repeats. LABEL names the storage where the file does not. Originals are kept in the folder with
    their SHA-256; what they do not say is never made up.
    """
    from savemark.importing.gather import gather
    from savemark.importing.patterns import Pattern
    from savemark.records.assemble import write_folder

    readings, skipped = gather(arguments, Pattern(factors) if factors else None)
    now = datetime.now().astimezone()
    given = _given(memory, max_read, max_write)
    folder = write_folder(readings, out or _default_path(now), head(now) | given, skipped)
    echo_notes(readings)
    for each in skipped:
        echo(f"skipped: {shown(each.path)}: {each.why}", err=True)
    _summary(readings, skipped)
    echo(f"run folder      {folder}")
    echo(f"next            savemark report {folder}")


def echo_notes(readings: Sequence[Reading]) -> None:
    """Print what readers passed over, and what may be mixed."""
    from savemark.records import mixed

    for line in [*_grouped(readings), *mixed.warnings(readings)]:
        echo(f"note: {line}", err=True)


def _grouped(readings: Sequence[Reading]) -> list[str]:
    """Return the notes, each once with the files that it is of."""
    files: dict[str, list[str]] = {}
    for reading in readings:
        for note in reading.found.notes:
            files.setdefault(note, []).append(clean(reading.path.name))
    more = {note: f" and {len(names) - 1} more" for note, names in files.items() if len(names) > 1}
    return [f"{names[0]}{more.get(note, '')}: {note}" for note, names in files.items()]


def _summary(readings: list[Reading], skipped: Sequence[Skipped]) -> None:
    """Print each file, or of many files how many there are of each format."""
    if len(readings) <= FEW:
        for reading in readings:
            count = len(reading.trials)
            echo(f"{reading.format:<15} {shown(reading.path)} ({count} trials)")
    else:
        for name in dict.fromkeys(reading.format for reading in readings):
            mine = [reading for reading in readings if reading.format == name]
            trials = sum(len(reading.trials) for reading in mine)
            echo(f"{name:<15} {len(mine)} files ({trials} trials)")
    if skipped:
        total = len(readings) + len(skipped)
        echo(f"{'skipped':<15} {len(skipped)} of {total} files, each with its reason above")


def _given(memory: float | None, max_read: float | None, max_write: float | None) -> dict[str, Any]:
    """Return what no file states, as the parts of `run.json` that hold it."""
    limits = {"read_bytes_per_s": max_read, "write_bytes_per_s": max_write}
    stated = {name: value for name, value in limits.items() if value is not None}
    given: dict[str, Any] = {"study": {"checks": {"HC-03": stated}}} if stated else {}
    if memory is not None:
        given["host"] = {"memory": {"total_bytes": int(memory)}}
    return {"given": given}


def head(now: datetime) -> dict[str, Any]:
    """Return what `run.json` says of an import at this time."""
    import savemark

    return {
        "run_id": f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
        "savemark_version": savemark.__version__,
        "started_at": now.isoformat(timespec="seconds"),
        "command": ["savemark", *sys.argv[1:]],
    }


def _default_path(now: datetime) -> Path:
    name = f"{now:%Y-%m-%dT%H-%M-%S}-imported"
    path, number = Path("savemark-runs", name), 2
    while path.exists():
        path, number = Path("savemark-runs", f"{name}-{number}"), number + 1
    return path
