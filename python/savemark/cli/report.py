"""`savemark report`: build a run's report again from its records."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command("report", short_help="Build the report of a run again.")
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option("--show-blocked", is_flag=True, help="Show numbers that a check forbids, marked.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(run_dir: Path, show_blocked: bool, as_json: bool) -> None:
    """Build the report of RUN_DIR again and print its result; needs no engine and no storage."""
    from savemark import report

    page = report.build(run_dir, show_blocked=show_blocked)
    if as_json:
        click.echo(json.dumps(report.summary(run_dir, show_blocked=show_blocked)))
        return
    from rich.console import Console

    report.terminal(run_dir, Console(highlight=False), show_blocked=show_blocked)
    click.echo(f"report      {page}")
