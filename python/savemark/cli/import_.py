"""`savemark import`: result files of other programs as a run of savemark's."""

from __future__ import annotations

import secrets
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import click


@click.command("import", short_help="Turn other programs' result files into a run.")
@click.argument("arguments", nargs=-1, required=True, metavar="[LABEL=]PATH...")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    envvar="SAVEMARK_OUT",
    help="New run folder.  [default: savemark-runs/TIME-imported]",
)
def command(arguments: tuple[str, ...], out: Path | None) -> None:
    """Make one run folder of result files; `savemark report` works on it as on any other.

    Formats are recognised by content. LABEL names the storage where the file does not. Originals
    are kept in the folder with their SHA-256; what they do not say is never made up.
    """
    from savemark.records.assemble import notes, write_folder
    from savemark.records.imported import read_source

    sources = [read_source(argument) for argument in arguments]
    now = datetime.now().astimezone()
    folder = write_folder(sources, out or _default_path(now), head(now))
    for note in notes(sources):
        click.echo(f"note: {note}", err=True)
    for source in sources:
        click.echo(f"{source.format:<15} {source.path} ({len(source.found.entries)} trials)")
    click.echo(f"run folder      {folder}")
    click.echo(f"next            savemark report {folder}")


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
