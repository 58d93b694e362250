"""`savemark list`: the checkpoints in a directory or below a URL."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from savemark import escape
from savemark.cli._options import json_option
from savemark.cli._print import echo
from savemark.cli._transfer import LookCommand, typed

if TYPE_CHECKING:
    from savemark.checkpoint.listing import Entry


@click.command("list", short_help="List the checkpoints in a directory or bucket.", cls=LookCommand)
@click.argument("place", metavar="DEST")
@json_option("what is found")
def command(place: str, as_json: bool, **options: object) -> None:
    """List the checkpoints in DEST, oldest first: time, size, codec, complete, damaged or newer.

    Where DEST is none and holds none that are numbered, those of the places directly in it are
    listed, by name. Data is not read: `savemark verify` does that.
    """
    from savemark import places
    from savemark.checkpoint import listing

    where = places.at(place, typed(options))
    entries, below = listing.entries(where), False
    if not entries:
        entries, below = listing.inside(where), True
    rows = [_row(entry) for entry in entries]
    if as_json:
        echo(json.dumps(rows))
        return
    if not rows:
        echo(f"no checkpoint in {place}")
    elif below:
        echo(f"note: {place} is no checkpoint; these are one level below it", err=True)
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        echo(escape.one_line(_line(row, width)))  # a name may hold line ends


def _row(entry: Entry) -> dict[str, Any]:
    found = entry.contents["checkpoint"] or {}
    saved = found.get("saved_unix_ns")
    time = datetime.fromtimestamp(saved / 1e9, UTC).isoformat(timespec="seconds") if saved else None
    return {
        "name": entry.name,
        "status": entry.status,
        "saved_at": time,
        "user_bytes": found.get("user_bytes"),
        "stored_bytes": found.get("stored_bytes"),
        "codec": found.get("codec") or None,
        "damage": found.get("damage"),
        "orphan_bytes": sum(orphan["bytes"] for orphan in entry.contents["orphans"]),
    }


def _line(row: dict[str, Any], width: int) -> str:
    from savemark.cli._words import bytes_text

    parts = [f"{row['name']:<{width}}", f"{row['status']:<11}"]
    if row["codec"]:
        parts += [
            f"{row['saved_at'] or '-':<25}",
            f"{bytes_text(row['user_bytes']):>8}",
            f"{bytes_text(row['stored_bytes']):>8} stored",
            f"{row['codec']:<4}",
        ]
    if row["damage"]:
        parts.append(row["damage"])
    if row["orphan_bytes"]:
        parts.append(f"{bytes_text(row['orphan_bytes'])} left by an interrupted save")
    return "  ".join(parts).rstrip()
