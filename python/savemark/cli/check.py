"""`savemark check`: the honesty checks alone."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

    from savemark.checks import Finding
    from savemark.report.analysis import Analysis

STYLES = {"BLOCK": "bold red", "FLAG": "yellow", "NOTE": "cyan", "unverified": "magenta"}


@click.command("check", short_help="Say whether the numbers of a run are true.")
@click.argument("runs", nargs=-1, metavar="RUN_DIR|[LABEL=]FILE...")
@click.option("--all", "every", is_flag=True, help="Also the checks that found nothing.")
@click.option("--strict", is_flag=True, help="Exit with 1 if any run is not valid.")
@click.option("--list", "listed", is_flag=True, help="Print the catalogue of checks instead.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(runs: tuple[str, ...], every: bool, strict: bool, listed: bool, as_json: bool) -> int:
    """Run the honesty checks on run folders and on result files; nothing is measured.

    Result files of other programs (as for `savemark import`) are judged together, as one run.
    """
    from rich.console import Console

    from savemark.errors import usage

    console = Console(highlight=False)
    if listed:
        _catalogue(console, as_json)
        return 0
    if not runs:
        raise usage("no run to check", "for example: savemark check savemark-runs/<time>-quick")
    judged = _judge(runs)
    if as_json:
        click.echo(json.dumps([_as_json(name, analysis) for name, analysis in judged.items()]))
    else:
        for name, analysis in judged.items():
            _show(console, name, analysis, every)
    invalid = any(analysis.badge[0] == "invalid" for analysis in judged.values())
    return 1 if strict and invalid else 0


def _judge(arguments: tuple[str, ...]) -> dict[str, Analysis]:
    """Judge each run folder by itself, and all files together, by the name to show them under."""
    from savemark.report.analysis import analyse

    files = [text for text in arguments if not Path(text).is_dir()]
    judged = {text: analyse(Path(text)) for text in arguments if text not in files}
    if files:
        from savemark.cli.import_ import head
        from savemark.records.assemble import write_folder
        from savemark.records.gather import gather

        sources, skipped = gather(files)
        with TemporaryDirectory(prefix="savemark-check-") as scratch:
            facts = head(datetime.now().astimezone())
            judged[", ".join(files)] = analyse(
                write_folder(sources, Path(scratch, "run"), facts, skipped)
            )
    return judged


def _as_json(name: str, analysis: Analysis) -> dict[str, Any]:
    state, words = analysis.badge
    return {
        "schema": 1,
        "run_id": analysis.run.run_id,
        "checked": name,
        "valid": state != "invalid",
        "validity": words,
        "findings": [
            {"id": f.id, "title": f.title, "verdict": f.verdict.value, "evidence": f.evidence}
            | {"cause": f.cause, "fix": f.fix}
            | {
                "blocks": [
                    dict(zip(("label", "setting", "phase"), block, strict=True))
                    for block in f.blocks
                ]
            }
            for f in analysis.findings
        ],
    }


def _show(console: Console, name: str, analysis: Analysis, every: bool) -> None:
    """Print what fired, then what could not be verified; the rest only when asked for."""
    from rich.table import Table
    from rich.text import Text

    from savemark.checks import Verdict

    state, words = analysis.badge
    console.print(Text(name, "bold"), soft_wrap=True)
    console.print(Text(words, "bold red" if state == "invalid" else "green"))
    told = [*analysis.fired, *_merged(analysis.unverified)]
    quiet = [finding for finding in analysis.findings if finding.verdict is Verdict.OK]
    table = Table.grid(padding=(0, 2, 0, 0))
    for width in (6, 10):
        table.add_column(no_wrap=True, width=width)
    table.add_column(overflow="fold")
    for finding in [*told, *(quiet if every else [])]:
        style = STYLES.get(finding.verdict.value, "")
        table.add_row(finding.id, Text(finding.verdict.value, style), Text(finding.message))
    console.print(table)
    if quiet and not every:
        console.print(Text(f"{len(quiet)} checks found nothing; --all lists them", "dim"))
    console.print()


def _merged(findings: list[Finding]) -> list[Finding]:
    """One line for checks that say the same: the first of them, with the ids of the others."""
    by_text: dict[str, list[Finding]] = {}
    for finding in findings:
        by_text.setdefault(finding.message, []).append(finding)
    merged = []
    for same in by_text.values():
        others = ", ".join(finding.id for finding in same[1:])
        more = f" (Also {others}.)" if others else ""
        merged.append(replace(same[0], evidence=same[0].evidence + more))
    return merged


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
