"""`savemark pair`: measure old and new in turns, and fail if new is slower."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from savemark.cli._options import (
    TrialCommand,
    as_typed,
    json_option,
    max_regression_option,
    out_option,
    seed_option,
    show_blocked_option,
)
from savemark.cli._print import echo
from savemark.errors import EXIT_CODES, usage

if TYPE_CHECKING:
    from savemark.run.request import Request
    from savemark.run.start import Outcome

REPEATS = 10


@click.command(
    "pair", short_help="Measure old and new in turns; fail if new is slower.", cls=TrialCommand
)
@click.argument("arguments", nargs=-1, metavar="[STUDY] [OLD=]TARGET [NEW=]TARGET")
@click.option(
    "--switch",
    metavar="COMMAND",
    help="Shell command to call before a trial of the other target, which it finds in "
    "$SAVEMARK_SIDE and $SAVEMARK_TARGET: restart a server, change a setting.",
)
@max_regression_option
@click.option(
    "--repeats",
    type=click.IntRange(min=6),
    metavar="N",
    default=REPEATS,
    show_default=True,
    envvar="SAVEMARK_REPEATS",
    help="Runs of every setting on both targets.",
)
@click.option("--budget", metavar="TIME", envvar="SAVEMARK_BUDGET", help="Time for the whole run.")
@seed_option
@out_option
@show_blocked_option("Judge")
@json_option("the verdict")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print it for a pull request.")
def command(
    arguments: tuple[str, ...],
    switch: str | None,
    max_regression: float,
    repeats: int,
    budget: str | None,
    seed: int | None,
    out: Path | None,
    show_blocked: bool,
    as_json: bool,
    as_markdown: bool,
    **trial: object,
) -> int:
    """Measure two targets in turns and hold the second against the first, repeat by repeat.

    What hits both alike, another hour or a busy neighbour, cancels: far smaller losses are found
    than between two runs. Exits with 3 if a cell lost more than the limit and more than chance
    explains. `savemark gate RUN_DIR` gives the verdict again.
    """
    if as_json and as_markdown:
        raise usage("--json and --markdown exclude each other", "choose one of them")
    from savemark.cli.gate import answer
    from savemark.report import build, gating
    from savemark.run.request import Request
    from savemark.run.target import parse

    study, targets = parse(arguments)
    if len(targets) != 2:
        raise usage(
            f"a pair is two targets, not {len(targets)}",
            "for example: savemark pair old=/mnt/a new=/mnt/b",
        )
    request = Request(
        study=study,
        targets=targets,
        flags=as_typed(trial),
        budget=budget,
        repeats=repeats,
        seed=seed,
        out=out,
        command=("savemark", *sys.argv[1:]),
    )
    outcome = _measure(request, switch)
    page = build(outcome.path, show_blocked=show_blocked)
    found = gating.judge_turns(outcome.path, max_regression, show_blocked=show_blocked)
    code = answer(found, as_json=as_json, as_markdown=as_markdown)
    echo(f"report      {page}", err=True)
    if outcome.tally.corrupt:
        return EXIT_CODES["corrupt"]
    return code


def _measure(request: Request, switch: str | None) -> Outcome:
    from savemark.cli._display import Display
    from savemark.run.start import start
    from savemark.run.switch import Switch

    display = Display()
    names = {target.label: target.name for target in request.targets}
    try:
        return start(request, Switch(switch, names, display) if switch else display)
    finally:
        display.close()
