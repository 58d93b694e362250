"""`savemark clean`: what interrupted saves and restores left."""

from __future__ import annotations

import json
from typing import Any

import click

from savemark.cli._options import json_option
from savemark.cli._print import echo
from savemark.cli._transfer import LookCommand, typed


@click.command("clean", short_help="Remove what interrupted saves left.", cls=LookCommand)
@click.argument("place", metavar="DEST")
@click.option("--dry-run", is_flag=True, help="Say what would be removed; remove nothing.")
@click.option(
    "--older-than",
    metavar="TIME",
    help="In a bucket, leave what belongs to a save that did something within TIME: nothing there "
    "says whether it still runs. 0s: all, if you know that none does.  [default: 24h]",
)
@json_option("what is found")
def command(
    place: str, dry_run: bool, older_than: str | None, as_json: bool, **options: object
) -> None:
    """Remove what interrupted saves into DEST left, and interrupted restores beside it.

    No checkpoint is touched, complete or damaged, nor any file that savemark did not write. In a
    bucket unfinished uploads are aborted: their parts cost money and are in no listing.
    """
    import savemark._engine as engine
    from savemark import places
    from savemark.checkpoint import listing

    where = places.at(place, typed(options))
    older_than_s = engine.parse_span(older_than or "24h")
    found = listing.clean(where, older_than_s=older_than_s, dry_run=dry_run)
    removed = [file for file in found if file["abandoned"]]
    left = [file for file in found if not file["abandoned"]]
    if as_json:
        echo(json.dumps({"dry_run": dry_run, "removed": removed, "left": left}))
        return
    verb = "would remove" if dry_run else "removed"
    for file in removed:
        echo(_line(verb, file))
    for file in left:
        echo(_line("left", file, f"its save did something {_ago(file)} ago"))
    if left:
        echo("If no save is under way, remove the rest with --older-than 0s.")
    if not found:
        echo("nothing to remove")


def _line(verb: str, file: dict[str, Any], why: str = "") -> str:
    from savemark.cli._words import bytes_text

    size = bytes_text(file["bytes"]) if file["bytes"] else ""
    kind = "an unfinished upload" if file.get("upload") else ""
    return "  ".join(part for part in (verb, file["name"], size, kind, why) if part)


def _ago(file: dict[str, Any]) -> str:
    seconds = int(file["idle_ns"] / 1e9)
    for step, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= step:
            return f"{seconds // step} {unit}"
    return f"{seconds} s"
