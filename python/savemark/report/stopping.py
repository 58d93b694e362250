"""What became of the rule of an adaptive run, in words and as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from savemark.records import Run
from savemark.records.naming import setting
from savemark.report.text import both
from savemark.stats.stopping import Precision, stopping


def sentence(run: Run) -> str:
    """Which settings met the rule and which hit the cap; nothing for a run without a rule."""
    found = stopping(run)
    if found is None:
        return ""
    total, met = len(found.reached) + len(found.open), len(found.reached)
    text = f"{met} of {total} settings {_is(met)} known to ±{found.limit * 100:g} %"
    if found.reached:
        text += f" ({_repeats(found.reached)})"
    if found.open:
        names = both([_open(each, len(run.targets) > 1) for each in found.open])
        most = max(each.n + each.failed for each in found.open)
        why = ", the most allowed" if most >= found.most else ""
        text += f"; {len(found.open)} {_is(len(found.open))} not after {most} repeats{why}: {names}"
    return (
        f"{text}. Repeating until an interval is narrow favours lucky series: its 95 % are "
        "nominal, most so where few settings met the rule."
    )


def as_json(run: Run) -> dict[str, Any] | None:
    """Return the same as data."""
    found = stopping(run)
    if found is None:
        return None
    return {
        "until": found.limit,
        "max_repeats": found.most,
        "reached": [_precision(each) for each in found.reached],
        "open": [_precision(each) for each in found.open],
    }


def _precision(each: Precision) -> dict[str, Any]:
    return {
        "label": each.entry.label,
        "setting": setting(each.entry.factors),
        "repeats": each.n,
        "failed": each.failed,
        "half_width": each.half_width,
    }


def _open(each: Precision, several: bool) -> str:
    name = setting(each.entry.factors) + (f" on {each.entry.label}" if several else "")
    if each.half_width is not None:
        return f"{name} (±{each.half_width * 100:.1f} %)"
    return f"{name} ({each.failed} failed)" if each.failed else name


def _repeats(cells: Sequence[Precision]) -> str:
    low, high = min(each.n for each in cells), max(each.n for each in cells)
    return f"{low} repeats" if low == high else f"{low} to {high} repeats"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"
