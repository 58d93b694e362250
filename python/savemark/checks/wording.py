"""Small phrases that several checks need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from savemark.records.naming import ONLY
from savemark.stats import Key
from savemark.units import rate_text


def listing(items: Iterable[str], most: int = 4, of: str = "") -> str:
    """`a, b, c, d and 3 more`, `of` what; names with commas of their own are parted by semicolons.

    Behind those a semicolon parts the rest, too, or it would look like a part of the last one.
    """
    names = list(dict.fromkeys(items))
    joint = "; " if any(", " in name for name in names) else ", "
    if len(names) > most:
        more = f"{len(names) - most} more{of and f' {of}'}"
        return f"{joint.join(names[:most])}{';' if joint == '; ' else ''} and {more}"
    return joint.join(names)


def keys(rows: pl.DataFrame) -> tuple[Key, ...]:
    """The keys of some rows, each once."""
    columns = rows.select("label", "setting", "phase").unique(maintain_order=True)
    return tuple(Key(*map(str, row)) for row in columns.rows())


def settings(phases: Sequence[Key], most: int = 4) -> str:
    """The settings of some keys, with the label where there is more than one target."""
    several = len({key.label for key in phases}) > 1
    names = ("all trials" if key.setting == ONLY else key.setting for key in phases)
    if several:
        names = (f"{name} on {key.label}" for name, key in zip(names, phases, strict=True))
    return listing(names, most)


def count(number: int, noun: str) -> str:
    """`1 trial`, `3 trials`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def verb(number: int, one: str, several: str) -> str:
    """`is` for one, `are` for several."""
    return one if number == 1 else several


def percent(share: float) -> str:
    """`0.4 %`, `12 %`."""
    return f"{share:.0%}".replace("%", " %") if share >= 0.1 else f"{share:.1%}".replace("%", " %")


def difference(share: float | None) -> str:
    """`a difference of 12 %`, `a cost 3.4 times as high`; of a cost that may be 0, no number."""
    if share is None:
        return "a difference"
    return (
        f"a difference of {percent(share)}"
        if share < 1
        else f"a cost {1 + share:.2g} times as high"
    )


def rate(bytes_per_s: float) -> str:
    """`1.91 GB/s`, as everywhere on a screen."""
    return rate_text(bytes_per_s)
