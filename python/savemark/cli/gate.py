"""`savemark gate`: fail a pipeline where a run is slower than its baseline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from savemark.cli._options import json_option, max_regression_option, show_blocked_option
from savemark.cli._print import echo, terminal
from savemark.cli._units import share
from savemark.errors import EXIT_CODES, usage

if TYPE_CHECKING:
    from savemark.report.gating import Judgement


@click.command("gate", short_help="Fail if a run is slower than its baseline.")
@click.argument("new", type=click.Path(path_type=Path), metavar="NEW")
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="RUN_DIR",
    help="A run folder, or a directory of run folders. Repeat it: five runs show the noise well. "
    "Without any, NEW holds two targets measured in turns.",
)
@max_regression_option
@click.option(
    "--assume-noise",
    callback=share,
    metavar="PERCENT",
    default="2%",
    show_default=True,
    help="Deviation between runs to suppose until the baselines show it.",
)
@click.option("--allow-different", is_flag=True, help="Judge runs that did not do the same work.")
@show_blocked_option("Judge")
@json_option("the verdict")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print it for a pull request.")
def command(
    new: Path,
    baselines: tuple[Path, ...],
    max_regression: float,
    assume_noise: float,
    allow_different: bool,
    show_blocked: bool,
    as_json: bool,
    as_markdown: bool,
) -> int:
    """Hold the run folder NEW against baseline runs of the same study.

    Without --baseline, NEW is a run of two targets, old and new, which it measured in turns
    (`savemark pair`, or `savemark run old=DIR new=DIR`): the second is held against the first.

    Exits with 3 if a cell (a phase of a setting) lost more than the limit and more than the noise
    between runs explains; with 1 if NEW lacks a cell of the baselines; else with 0.
    """
    if as_json and as_markdown:
        raise usage("--json and --markdown exclude each other", "choose one of them")
    from savemark.report import gating

    if not baselines:
        found = gating.judge_turns(new, max_regression, show_blocked=show_blocked)
        return answer(found, as_json=as_json, as_markdown=as_markdown)
    found = gating.judge(
        new,
        baselines,
        max_regression,
        assume_noise,
        allow_different=allow_different,
        show_blocked=show_blocked,
    )
    return answer(found, as_json=as_json, as_markdown=as_markdown)


def answer(found: Judgement, *, as_json: bool, as_markdown: bool) -> int:
    """Print the verdict, and return the exit code."""
    from savemark.report import gating

    if as_json:
        echo(json.dumps(gating.as_json(found)))
    elif as_markdown:
        echo(gating.markdown(found), nl=False)
    else:
        gating.show(found, terminal())
    if found.lost:
        return EXIT_CODES["outside"]
    return EXIT_CODES["failed"] if found.incomplete else 0
