"""`savemark report`: build the report of a run again, or of several runs together."""

from __future__ import annotations

import json
from pathlib import Path

import click

from savemark.cli._judged import judged
from savemark.cli._options import expect_option, json_option, show_blocked_option
from savemark.cli._print import echo, terminal
from savemark.errors import refused


@click.command("report", short_help="Build the report of a run again, or of several together.")
@click.argument("runs", nargs=-1, required=True, metavar="[LABEL=]RUN...")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the report of several runs goes.  [default: savemark-report]",
)
@expect_option
@show_blocked_option("Show")
@json_option("the summary")
def command(
    runs: tuple[str, ...],
    out: Path | None,
    expect: tuple[str, ...],
    show_blocked: bool,
    as_json: bool,
) -> int:
    """Build the report of RUN again and print its result; needs no engine and no storage.

    Several runs make one page in a folder of its own: each is told by its LABEL, or by the name of
    its folder.
    """
    from savemark import report
    from savemark.records import read_runs

    if len(runs) == 1 and out is not None:
        raise click.UsageError("--out is for several runs; the report of one is in its folder")
    from savemark.report.expecting import expecting

    run = expecting(read_runs(runs, out or Path("savemark-report")), expect)
    if len(runs) > 1:
        _refuse_foreign(run.folder)
    page = report.build(run, show_blocked=show_blocked)
    summary = report.summary(run, show_blocked=show_blocked)
    if as_json:
        echo(json.dumps(summary))
        return judged(summary)

    report.show(run, terminal(), show_blocked=show_blocked)
    echo(f"report      {page}")
    return judged(summary)


def _refuse_foreign(folder: Path) -> None:
    """Write into an empty folder, or over a report of ours that holds no run."""
    if not folder.exists() or not any(folder.iterdir()):
        return
    if (folder / "run.json").exists() or not (folder / "report.html").exists():
        raise refused(f"{folder} is not empty and holds no report of several runs", "choose --out")
