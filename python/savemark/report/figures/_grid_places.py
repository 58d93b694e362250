"""The heads of a grid's panels."""

from __future__ import annotations

from savemark.report.factors import Roles


def row_of(found: Roles, place: dict[str, str]) -> str:
    """Return the head of the row that a setting belongs to."""
    return f"{found.row.title} {found.row.shown(place[found.row.name])}" if found.row else ""


def column_of(found: Roles, place: dict[str, str]) -> str:
    """Return the head of its column."""
    return ", ".join(f"{f.title} {f.shown(place[f.name])}" for f in found.columns)
