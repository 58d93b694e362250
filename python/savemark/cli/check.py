"""`savemark check`: the honesty checks alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

    from savemark.report.analysis import Analysis

STYLES = {"BLOCK": "bold red", "FLAG": "yellow", "NOTE": "cyan", "unverified": "magenta"}


@click.command("check", short_help="Say whether the numbers of a run are true.")
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="RUN_DIR...")
@click.option("--all", "every", is_flag=True, help="Also the checks that found nothing.")
@click.option("--strict", is_flag=True, help="Exit with 1 if any run is not valid.")
@click.option("--list", "listed", is_flag=True, help="Print the catalogue of checks instead.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(runs: tuple[Path, ...], every: bool, strict: bool, listed: bool, as_json: bool) -> int:
    """Run the honesty checks on run folders, measured or imported; nothing is measured.

    Result files of other programs become a run folder with `savemark import`.
    """
    from rich.console import Console

    from savemark.errors import usage
    from savemark.report.analysis import analyse

    console = Console(highlight=False)
    if listed:
        _catalogue(console, as_json)
        return 0
    if not runs:
        raise usage("no run to check", "for example: savemark check savemark-runs/<time>-quick")
    for run in runs:
        if run.is_file():
            raise usage(f"{run} is a file, not a run folder", f"savemark import {run}")
    judged = [analyse(run) for run in runs]
    if as_json:
        click.echo(json.dumps([_as_json(analysis) for analysis in judged]))
    else:
        for analysis in judged:
            _show(console, analysis, every)
    invalid = any(analysis.badge[0] == "invalid" for analysis in judged)
    return 1 if strict and invalid else 0


def _as_json(analysis: Analysis) -> dict[str, Any]:
    state, words = analysis.badge
    return {
        "schema": 1,
        "run_id": analysis.run.run_id,
        "run_dir": str(analysis.run.folder),
        "valid": state != "invalid",
        "validity": words,
        "findings": [
            {"id": f.id, "title": f.title, "verdict": f.verdict.value, "evidence": f.evidence}
            | {"cause": f.cause, "fix": f.fix}
            | {
                "blocks": [
                    dict(zip(("label", "setting", "phase"), b, strict=True)) for b in f.blocks
                ]
            }
            for f in analysis.findings
        ],
    }


def _show(console: Console, analysis: Analysis, every: bool) -> None:
    """Print what fired, then what could not be verified; the rest only when asked for."""
    from rich.table import Table
    from rich.text import Text

    state, words = analysis.badge
    console.print(Text(str(analysis.run.folder), "bold"), soft_wrap=True)
    console.print(Text(words, "bold red" if state == "invalid" else "green"))
    told = [*analysis.fired, *analysis.unverified]
    rest = [finding for finding in analysis.findings if finding not in told]
    table = Table.grid(padding=(0, 2, 0, 0))
    for width in (6, 10):
        table.add_column(no_wrap=True, width=width)
    table.add_column(overflow="fold")
    for finding in [*told, *(rest if every else [])]:
        style = STYLES.get(finding.verdict.value, "")
        table.add_row(finding.id, Text(finding.verdict.value, style), Text(finding.message))
    console.print(table)
    if rest and not every:
        console.print(Text(f"{len(rest)} checks found nothing; --all lists them", "dim"))
    console.print()


def _catalogue(console: Console, as_json: bool) -> None:
    from rich.table import Table

    from savemark.checks import catalogue

    if as_json:
        facts = ("id", "title", "rule", "verdict", "applies", "limits")
        click.echo(json.dumps([{f: getattr(entry, f) for f in facts} for entry in catalogue()]))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0), header_style="dim")
    for name in ("id", "what it asks", "rule", "verdict", "for"):
        table.add_column(name, no_wrap=name in ("id", "for"))
    for entry in catalogue():
        table.add_row(entry.id, entry.title, entry.rule, entry.verdict, entry.applies)
    console.print(table)
    console.print("L = trials measured here, I = imported files", style="dim")
