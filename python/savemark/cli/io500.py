"""`savemark io500`: the twelve lines of IO500 of a run or a result file, and where they stand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from savemark.cli._options import json_option, show_blocked_option
from savemark.cli._print import echo, terminal

if TYPE_CHECKING:
    from savemark.records.io500 import Outcome
    from savemark.report.standing import Standing


@click.command("io500", short_help="Show scores of IO500, and where they stand among others.")
@click.argument(
    "results", nargs=-1, required=True, metavar="RUN_DIR|RESULT...", type=click.Path(path_type=Path)
)
@click.option(
    "--among",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder with other results, such as IO500's own submissions: ranks are among these.",
)
@show_blocked_option("Show")
@json_option("the result (or the error)")
def command(
    results: tuple[Path, ...], among: Path | None, show_blocked: bool, as_json: bool
) -> int:
    """Print the twelve lines and the score of each RESULT, computed again from its phases.

    RESULT is a run folder of savemark, or IO500's result.txt or result_summary.txt. To make one:
    savemark run io500 PATH.
    """
    from savemark.report import standing

    each = [standing.of(path, show_blocked=show_blocked) for path in results]
    found = {name: outcome for some in each for name, outcome in some.items()}
    field = standing.field(among) if among else None
    places = {name: field.place(outcome) for name, outcome in found.items()} if field else {}
    if as_json:
        echo(json.dumps(_as_json(found, places)))
    else:
        _show(found, places)
        if field:
            echo(field.sentence)
    return 0


def _show(found: dict[str, Outcome], places: dict[str, Standing]) -> None:

    from savemark.report import standing
    from savemark.report.grid import print_table

    print_table(terminal(), standing.table(found, places))
    for name, outcome in found.items():
        if name in places:
            echo(f"{name}: {places[name].sentence}")
        for reason in outcome.why_invalid:
            echo(f"{name}: [INVALID]: {reason}")


def _as_json(found: dict[str, Outcome], places: dict[str, Standing]) -> list[dict[str, Any]]:
    from savemark.report.io500 import data

    return [
        {"name": name, **data(outcome), "standing": places[name].as_json() if places else None}
        for name, outcome in found.items()
    ]
