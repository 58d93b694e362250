"""`savemark check`: the honesty checks alone."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from savemark.cli._judged import judged
from savemark.cli._options import expect_option, json_option
from savemark.cli._print import echo, terminal
from savemark.untrusted import clean, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from savemark.checks import Finding
    from savemark.report.analysis import Analysis

HEAD = "run.json"  # what makes a folder a run
STYLES = {"BLOCK": "bold red", "FLAG": "yellow", "NOTE": "cyan", "unverified": "magenta"}


@click.command("check", short_help="Say whether the numbers of a run are true.")
@click.argument("runs", nargs=-1, metavar="RUN_DIR|[LABEL=]PATH...")
@click.option("--all", "every", is_flag=True, help="Also the checks that found nothing.")
@expect_option
@click.option("--strict", is_flag=True, help="Exit with 1 if any run is not valid.")
@click.option("--list", "listed", is_flag=True, help="Print the catalogue of checks instead.")
@json_option("the findings")
def command(
    runs: tuple[str, ...],
    every: bool,
    expect: tuple[str, ...],
    strict: bool,
    listed: bool,
    as_json: bool,
) -> int:
    """Run the honesty checks on run folders and on result files; nothing is measured or kept.

    What a run's study expects, and --expect, is held against the figures, too: exits with 3 if any
    of it failed, with 1 if it could not be shown.

    A folder of runs is each of them. Result files of other programs, and folders that hold some
    (as for `savemark import`), are judged together, as one run; what else is in them is counted on
    stderr.
    """
    from savemark.errors import usage

    console = terminal()
    if listed:
        _catalogue(console, as_json)
        return 0
    if not runs:
        raise usage("no run to check", "for example: savemark check savemark-runs/<time>-quick")
    found = _judge(runs, expect)
    answers = [_as_json(name, analysis) for name, analysis in found.items()]
    if as_json:
        echo(json.dumps(answers))
    else:
        for name, analysis in found.items():
            _show(console, name, analysis, every)
    expected = [each for answer in answers for each in answer["expected"]]
    valid = all(answer["valid"] for answer in answers)
    return judged({"valid": valid, "expected": expected}, strict=strict)


def _judge(arguments: tuple[str, ...], expect: tuple[str, ...]) -> dict[str, Analysis]:
    """Judge each run folder by itself, and all else together, by the name to show them under."""
    from savemark.records import read_run
    from savemark.report.analysis import analyse
    from savemark.report.expecting import expecting

    def judge(folder: Path) -> Analysis:
        return analyse(expecting(read_run(folder), expect))

    runs = {text: _runs(Path(text)) for text in arguments}
    found = {shown(run): judge(run) for each in runs.values() for run in each}
    foreign = [text for text in arguments if not runs[text]]
    if foreign:
        found[clean(", ".join(foreign))] = _judge_files(foreign, judge)
    return found


def _runs(path: Path) -> list[Path]:
    """Return the run that a folder is, or those in it; what tools left in them is no run."""
    return [path] if (path / HEAD).exists() else sorted(p.parent for p in path.glob(f"*/{HEAD}"))


def _judge_files(arguments: list[str], judge: Callable[[Path], Analysis]) -> Analysis:
    """Judge result files as the run that `savemark import` would make of them."""
    from savemark.cli.import_ import echo_notes, head
    from savemark.importing.gather import gather
    from savemark.records.assemble import write_folder

    readings, skipped = gather(arguments)
    echo_notes(readings)
    if skipped:
        first, total = skipped[0], len(readings) + len(skipped)
        of = f"{len(skipped)} of {total} files are not judged"
        said = f"{of}; the first is {shown(first.path)}"
        echo(f"note: {said}: {first.why}", err=True)
    with TemporaryDirectory(prefix="savemark-check-") as scratch:
        facts = head(datetime.now().astimezone())
        return judge(write_folder(readings, Path(scratch, "run"), facts, skipped))


def _as_json(name: str, analysis: Analysis) -> dict[str, Any]:
    from savemark.report import expecting

    state, words = analysis.badge
    return {
        "schema": 1,
        "run_id": analysis.run.run_id,
        "checked": name,
        "valid": state != "invalid",
        "validity": words,
        "expected": expecting.as_json(analysis),
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
    from savemark.report import expecting
    from savemark.report.grid import print_table

    state, words = analysis.badge
    console.print(Text(name, "bold"), soft_wrap=True)
    console.print(Text(words, "bold red" if state == "invalid" else "green"))
    for expected in expecting.tables(analysis):
        print_table(console, expected)
        console.print()
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
        echo(json.dumps([{f: getattr(entry, f) for f in facts} for entry in catalogue()]))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0), header_style="dim")
    for name in ("id", "what it asks", "rule", "verdict", "for"):
        table.add_column(name, no_wrap=name in ("id", "for"))
    for entry in catalogue():
        table.add_row(entry.id, entry.title, entry.rule, entry.verdict, entry.applies)
    console.print(table)
    console.print("L = trials measured here, I = imported files", style="dim")
