"""`savemark clean`: what interrupted saves and restores left."""

from __future__ import annotations

import json

import click


@click.command("clean", short_help="Remove what interrupted saves left.")
@click.argument("place", metavar="DEST")
@click.option("--dry-run", is_flag=True, help="Say what would be removed; remove nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(place: str, dry_run: bool, as_json: bool) -> None:
    """Remove what interrupted saves into DEST left, and interrupted restores beside it.

    No checkpoint is touched, complete or damaged, nor any file that savemark did not write.
    """
    from savemark.checkpoint import place as places
    from savemark.cli._words import bytes_text

    removed = places.clean(places.directory(place), dry_run=dry_run)
    if as_json:
        click.echo(json.dumps({"dry_run": dry_run, "removed": removed}))
        return
    verb = "would remove" if dry_run else "removed"
    for file in removed:
        size = f"  {bytes_text(file['bytes'])}" if file["bytes"] else ""
        click.echo(f"{verb}  {file['name']}{size}")
    if not removed:
        click.echo("nothing to remove")
