"""`savemark run`: measure one or several places."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from savemark.cli._judged import judged
from savemark.cli._options import (
    TrialCommand,
    as_typed,
    expect_option,
    json_option,
    out_option,
    seed_option,
    show_blocked_option,
    study_or_place,
    yes_option,
)
from savemark.cli._print import echo, terminal
from savemark.errors import usage

if TYPE_CHECKING:
    from savemark.ranks.lead import Lead
    from savemark.run.request import Request
    from savemark.run.start import Outcome


EXAMPLES = (
    ("savemark run /mnt/scratch", "One directory."),
    ("savemark run /mnt/scratch --state ./model", "With your own data."),
    ("savemark run checkpoint-restore /mnt/a s3://bucket/p", "Compare two places."),
)


@click.command(
    "run",
    short_help="Measure one or several directories.",
    cls=TrialCommand,
    examples=EXAMPLES,
    default="quick",
)
@click.argument(
    "arguments",
    nargs=-1,
    metavar="[STUDY] [LABEL=]TARGET...",
    shell_complete=study_or_place,
)
@click.option("--budget", metavar="TIME", envvar="SAVEMARK_BUDGET", help="Time for the whole run.")
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    metavar="N",
    envvar="SAVEMARK_REPEATS",
    help="Runs of every setting.",
)
@click.option(
    "--until",
    metavar="RULE",
    envvar="SAVEMARK_UNTIL",
    help="Repeat until medians are this certain: 'ci<3%' is ±3 %.",
)
@click.option(
    "--max-repeats",
    type=click.IntRange(min=1),
    metavar="N",
    envvar="SAVEMARK_MAX_REPEATS",
    help="With --until: runs of every setting at most.  [default: 30]",
)
@expect_option
@seed_option
@out_option
@click.option("--full", is_flag=True, help="No race: every setting alike (the study grid).")
@click.option("--dry-run", is_flag=True, help="Say what would run, how long, and what it writes.")
@yes_option
@click.option(
    "--emit",
    metavar="LAUNCHER[:NODESxRANKS]",
    help="Print a file that starts this on many nodes: slurm:4x8, mpijob, skypilot.",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="RUN_DIR",
    help="Finish a run that was stopped.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 unless the answer is trusted.")
@show_blocked_option("Show")
@json_option("the result (or the error)")
def command(
    arguments: tuple[str, ...],
    budget: str | None,
    repeats: int | None,
    until: str | None,
    max_repeats: int | None,
    expect: tuple[str, ...],
    seed: int | None,
    out: Path | None,
    full: bool,
    dry_run: bool,
    yes: bool,
    emit: str | None,
    resume: Path | None,
    strict: bool,
    show_blocked: bool,
    as_json: bool,
    **trial: object,
) -> int:
    """Measure how fast each TARGET saves and restores a checkpoint.

    TARGET is an empty directory or a bucket's URL; nothing is left there. STUDY is a shipped study
    (savemark studies) or a YAML file; `quick` when left out.
    """
    from savemark.ranks.launch import join, leading

    world = join()
    if world is not None and world.rank:
        from savemark.ranks.follow import follow

        return follow(world)
    with leading(world) as ranks:
        from savemark.ranks.nodes import Nodes
        from savemark.run.request import Request
        from savemark.run.target import parse

        study, targets = parse(arguments)
        if full and study is not None:
            raise usage(f"--full is the study grid, not {study}", "leave one of them out")
        request = Request(
            study="grid" if full else study,
            targets=targets,
            flags=as_typed(trial),
            budget=budget,
            repeats=repeats,
            until=until,
            max_repeats=max_repeats,
            expect=expect,
            seed=seed,
            out=out,
            command=("savemark", *sys.argv[1:]),
            nodes=ranks.nodes if ranks else Nodes.alone(),
        )
        if emit is not None:
            return _emit(request, emit)
        if dry_run:
            return _preview(request, as_json)
        outcome = _measure(request, resume, ranks, yes=yes)
        if ranks:
            ranks.rest()
        return _show(outcome, as_json, strict, show_blocked)


def _preview(request: Request, as_json: bool) -> int:
    from savemark.cli._words import header, preview_facts, preview_lines
    from savemark.run.start import preview

    found = preview(request)
    if as_json:
        echo(json.dumps(preview_facts(found)))
        return 0
    echo(header(found))
    for line in preview_lines(found):
        echo(line)
    return 0


def _emit(request: Request, launcher: str) -> int:
    """Print the launch file, its time limit from what a dry run would say."""
    from savemark.launch import emit
    from savemark.ranks.nodes import Nodes
    from savemark.run.start import preview

    launch = emit.parse(launcher)
    names = [f"node{number}" for number in range(launch.nodes) for _ in range(launch.per_node)]
    request = replace(request, nodes=Nodes.of(names))
    found = preview(request, elsewhere=True)
    targets = [target.name for target in request.targets]
    seconds = found.seconds * found.stretch
    text = emit.emit(launch, found.study.name, request.command, targets, seconds)
    echo(text, nl=False)
    return 0


def _measure(
    request: Request, resume_dir: Path | None, ranks: Lead | None, *, yes: bool
) -> Outcome:
    from savemark.cli._ask import Asking
    from savemark.run.resume import resume
    from savemark.run.start import start

    display = Asking(request.command, yes=yes)
    try:
        if resume_dir is not None:
            return resume(resume_dir, request, display, ranks)
        return start(request, display, ranks)
    finally:
        display.close()


def _show(outcome: Outcome, as_json: bool, strict: bool, show_blocked: bool) -> int:
    """Print the result; the exit code is of the trials, then of what was expected of them."""
    from savemark import report
    from savemark.records import read_run

    run = read_run(outcome.path)  # once: a large one takes its time
    page = report.build(run, show_blocked=show_blocked)
    summary: dict[str, Any] = report.summary(run, show_blocked=show_blocked)
    if as_json:
        echo(json.dumps(summary))
    else:
        report.show(run, terminal(), show_blocked=show_blocked)
        echo(f"report      {page}")
    return _exit_code(outcome) or judged(summary, strict=strict)


def _exit_code(outcome: Outcome) -> int:
    """Say what became of the trials."""
    from savemark.errors import EXIT_CODES

    tally = outcome.tally
    for count, kind, what in (
        (tally.corrupt, "corrupt", "restored data that is not what was saved"),
        (tally.failed, "failed", "failed"),
    ):
        if count:
            trials = "1 trial" if count == 1 else f"{count} trials"
            echo(f"error: {trials} {what}; see {outcome.path / 'log.txt'}", err=True)
            return EXIT_CODES[kind]  # type: ignore[index]
    return 0
