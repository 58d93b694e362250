"""Callbacks of options: shares, sizes, rates and spans as they are typed for a calculation."""

from __future__ import annotations

import re
from collections.abc import Callable

import click

from savemark.units import BYTES, COUNTS, SPANS

Callback = Callable[[click.Context, click.Parameter, str | None], float | None]


def share(_ctx: click.Context, _param: click.Parameter, text: str | None) -> float | None:
    """Read `5%` or `0.05`, above 0 and below 1."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(%?)", text.strip())
    value = float(found[1]) / (100 if found[2] else 1) if found else 0.0
    if not 0 < value < 1:
        raise click.BadParameter(f"`{text}` is not a share; write 5% or 0.05")
    return value


def quantity(units: dict[str, float], what: str, *, zero: bool = False) -> Callback:
    """Return the callback that reads a number and a unit as base units; `what` says how to type."""

    def read(_ctx: click.Context, _param: click.Parameter, text: str | None) -> float | None:
        if text is None:
            return None
        pattern = r"(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*([A-Za-z]*)(?:/s)?"
        found = re.fullmatch(pattern, text.strip())
        if not found or found[2] not in units or not (float(found[1]) > 0 or zero):
            raise click.BadParameter(f"`{text}` is not {what}")
        return float(found[1]) * units[found[2]]

    return read


size = quantity(BYTES, "a size; write 5.68TB or 500GiB")
rate = quantity(BYTES, "a rate; write 25GB/s or 20GiB/s")
span = quantity(SPANS, "a time; write 3.09h or 90s")
count = quantity(COUNTS, "a number; write 405e9 or 405B")
span_or_zero = quantity(SPANS, "a time; write 5m or 90s", zero=True)
