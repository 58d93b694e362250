"""`savemark restore`: a checkpoint back to files."""

from __future__ import annotations

import json

import click

from savemark.cli._transfer import ReadCommand, show, typed, watched


@click.command("restore", short_help="Restore a checkpoint as files, verified.", cls=ReadCommand)
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DEST")
@click.option("--json", "as_json", is_flag=True, help="Print the report (or the error) as JSON.")
def command(source: str, destination: str, as_json: bool, **options: object) -> None:
    """Restore the checkpoint SRC (of several, the newest complete one) into the new directory DEST.

    Every byte is verified. DEST appears when all of it is durable, or not at all.
    """
    import savemark._engine as engine
    from savemark.checkpoint import place, transfer

    given = place.at(source)
    where = given.newest()
    with watched() as progress:
        trial = where.trial(typed(options))
        found = engine.restore_tree(trial, place.directory(destination), progress)
    done = transfer.report(where, json.loads(found))
    which = [] if where is given else [f"from {where.name}"]
    show("restored", done, as_json, ["verified", *which])
