"""`savemark verify`: is every byte of a checkpoint still what was saved."""

from __future__ import annotations

import json

import click

from savemark.cli._options import json_option
from savemark.cli._transfer import ReadCommand, show, typed, watched


@click.command("verify", short_help="Read a checkpoint and check every byte.", cls=ReadCommand)
@click.argument("source", metavar="SRC")
@json_option("the report (or the error)")
def command(source: str, as_json: bool, **options: object) -> None:
    """Read the checkpoint SRC (of several, the newest complete one) and check every byte."""
    import savemark._engine as engine
    from savemark import places
    from savemark.checkpoint import listing, transfer

    said = typed(options)
    given = places.at(source, said)
    where = listing.newest(given)
    with watched() as progress:
        found = engine.verify(where.trial(said), progress)
    done = transfer.report(where, json.loads(found))
    which = [] if where is given else [where.name]
    show("verified", done, as_json, ["every byte is what was saved", *which])
