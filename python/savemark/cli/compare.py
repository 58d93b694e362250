"""`savemark compare`: hold runs against the first one, cell by cell."""

from __future__ import annotations

import json
from pathlib import Path

import click

from savemark.cli._options import json_option, show_blocked_option
from savemark.cli._print import echo, terminal
from savemark.errors import usage


@click.command("compare", short_help="Compare runs cell by cell.")
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="BASE OTHER...")
@show_blocked_option("Compare")
@json_option("the comparison")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print it as Markdown.")
def command(runs: tuple[Path, ...], show_blocked: bool, as_json: bool, as_markdown: bool) -> None:
    """Compare each run folder OTHER with the run folder BASE.

    Every cell (a phase of a setting) gets both medians, the change with its interval, and an exact
    test, corrected for the number of cells. What the runs do not share (machine, storage path,
    size, versions) is said first.
    """
    if as_json and as_markdown:
        raise usage("--json and --markdown exclude each other", "choose one of them")
    from savemark.report import comparison

    found = comparison.comparison(runs, show_blocked=show_blocked)
    if as_json:
        echo(json.dumps(comparison.as_json(found)))
    elif as_markdown:
        echo(comparison.markdown(found), nl=False)
    else:
        comparison.show(found, terminal())
