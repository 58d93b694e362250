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
    study_or_place,
    yes_option,
)
from savemark.cli._print import echo
from savemark.errors import EXIT_CODES, usage

if TYPE_CHECKING:
    from savemark.run.request import Request
    from savemark.run.start import Outcome

REPEATS = 10


STUDY = "grid"  # where none is named: a race might end with other settings on each side
EXAMPLES = (("savemark pair old=/mnt/a new=/mnt/b", "Is b slower than a?"),)


@click.command(
    "pair",
    short_help="Measure old and new in turns; fail if new is slower.",
    cls=TrialCommand,
    examples=EXAMPLES,
    default=STUDY,
)
@click.argument(
    "arguments",
    nargs=-1,
    metavar="[STUDY] [OLD=]TARGET [NEW=]TARGET",
    shell_complete=study_or_place,
)
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
@yes_option
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
    yes: bool,
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
        study=study or STUDY,
        targets=targets,
        flags=as_typed(trial),
        budget=budget,
        repeats=repeats,
        seed=seed,
        out=out,
        command=("savemark", *sys.argv[1:]),
    )
    outcome = _measure(request, switch, yes=yes)
    page = build(outcome.path, show_blocked=show_blocked)
    found = gating.judge_turns(outcome.path, max_regression, show_blocked=show_blocked)
    code = answer(found, as_json=as_json, as_markdown=as_markdown)
    echo(f"report      {page}", err=True)
    if outcome.tally.corrupt:
        return EXIT_CODES["corrupt"]
    return code


def _measure(request: Request, switch: str | None, *, yes: bool) -> Outcome:
    from savemark.cli._ask import Asking
    from savemark.run.start import start
    from savemark.run.switch import Switch

    display = Asking(request.command, yes=yes)
    names = {target.label: target.name for target in request.targets}
    try:
        if switch is None:
            return start(request, display)
        return start(request, display, prepare=Switch(switch, names))
    finally:
        display.close()
