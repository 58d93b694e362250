"""`savemark export`: the records of runs as one table for other programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from savemark import files
from savemark.cli._options import show_blocked_option
from savemark.cli._print import echo
from savemark.errors import usage

if TYPE_CHECKING:
    import polars as pl

FORMATS = ("parquet", "csv", "json")  # those of records/export.py, which is imported when it runs


@click.command("export", short_help="Write the records of runs as one table.")
@click.argument("runs", nargs=-1, required=True, metavar="[LABEL=]RUN...")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="What to write.  [default: as FILE ends, else csv]",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to write it.  [default: stdout]",
)
@show_blocked_option("Write")
def command(runs: tuple[str, ...], form: str | None, out: Path | None, show_blocked: bool) -> None:
    """Write every phase of every trial of RUNS as one table, in base units.

    `savemark schema --table` says what the columns mean. The column `run` tells the runs apart,
    `blocked_by` names the check that forbids a row's times: without --show-blocked they are empty.
    """
    from savemark.records import Run, export
    from savemark.records.several import read_each
    from savemark.report import blocked
    from savemark.report.analysis import analyse

    def told(run: Run) -> pl.DataFrame:
        return blocked.phases(analyse(run, show_blocked=show_blocked))

    form = form or _ending(out) or "csv"
    if out is None and form == "parquet" and sys.stdout.isatty():
        raise usage("parquet is not for a terminal", "name a file: -o trials.parquet")
    rows = export.table(list(read_each(runs).values()), told)
    if out is None:
        export.write(rows, form, sys.stdout.buffer)
        return
    # Whole or not there: a reader never meets half a table.
    with files.replacing(out) as file:
        export.write(rows, form, file)
    echo(f"{len(rows)} rows, {len(rows.columns)} columns: {out}", err=True)


def _ending(out: Path | None) -> str | None:
    """Return the format that a file's name says; None without a name, or an ending."""
    ending = out.suffix.lstrip(".").lower() if out else ""
    if ending and ending not in FORMATS:
        raise usage(
            f"-o {out}: `.{ending}` is no format of an export",
            f"end it in {', '.join(f'.{form}' for form in FORMATS)}, or say which it is: --format",
        )
    return ending or None
