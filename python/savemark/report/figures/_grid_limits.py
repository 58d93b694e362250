"""The panels of a grid: their heads, the ceilings of drives in them, and the links of GPUs."""

from __future__ import annotations

from itertools import product
from typing import Any

from savemark.gpus import gpu_count
from savemark.report.analysis import Analysis
from savemark.report.factors import TARGET, Roles
from savemark.stats.bus import Bus, bus
from savemark.stats.ceilings import SIDES

Rows = list[dict[str, Any]]
GPUS = "gpus"
# A link that is so much above everything else is told in words: drawn, it would flatten the rest.
OFF_SCALE = 1.5


def limits(analysis: Analysis, phase: str, found: Roles, values: Rows, scale: float) -> Rows:
    """Return the lines of the ceilings and links in each panel that has points."""
    drives = _drives(analysis, phase, found, values, scale)
    top = max(row["y"] for row in [*values, *drives])
    link = bus(analysis.run.host)
    return drives + (_links(analysis, link, found, values, (scale, top)) if link else [])


def _drives(analysis: Analysis, phase: str, found: Roles, values: Rows, scale: float) -> Rows:
    """The ceiling of each target in each panel where it has points; a colour per target."""
    rows: Rows = []
    for result in analysis.results:
        top = result.ceilings.get(SIDES[phase][0]) if phase in SIDES else None
        if top is None:
            continue
        mine = found.line is not None and found.line.name == TARGET
        lines = {v["line"] for v in values if mine and _is_of(v["line"], result.label)}
        seen = {(v["row"], v["column"]) for v in values if not mine or v["line"] in lines}
        # A target that is one line has its colour; one of several lines has a name instead.
        own = result.label if result.label in lines else ""
        name = f"{result.label}: {top.title}" if len(analysis.results) > 1 else top.title
        words = "" if own else name
        for row, column in sorted(seen):
            rows.append({"kind": "ceiling", "row": row, "column": column,
                         "y": scale * top.rate / 1e9, "line": own, "words": words})  # fmt: skip
    return rows


def _is_of(line: str, label: str) -> bool:
    return line == label or line.startswith(f"{label} ")


def _links(
    analysis: Analysis, link: Bus, found: Roles, values: Rows, how: tuple[float, float]
) -> Rows:
    """What the GPUs of each panel can take; above the scale in words alone."""
    scale, top = how
    rows: Rows = []
    seen = {(v["row"], v["column"]) for v in values}
    for place, numbers in _sets(analysis, found).items():
        if place not in seen:
            continue
        most = link.rate * gpu_count(numbers) / 1e9
        head = {"row": place[0], "column": place[1], "line": ""}
        words = f"{link.name}: {most:.0f} GB/s"
        if scale * most <= OFF_SCALE * top:
            rows.append(head | {"kind": "ceiling", "y": scale * most, "words": words})
        else:
            rows.append(head | {"kind": "above", "words": f"{words} ↑"})
    return rows


def _sets(analysis: Analysis, found: Roles) -> dict[tuple[str, str], str]:
    """The GPUs of each panel; none where they vary inside of it, or no GPU takes part."""
    panels = [f for f in (found.row, *found.columns) if f]
    study = analysis.run.study
    fixed = {**study.defaults, **study.trial}.get(GPUS)
    if not any(factor.name == GPUS for factor in panels) and fixed is None:
        return {}
    if any(f is not None and f.name == GPUS for f in (found.across, found.line)):
        return {}
    names = [factor.name for factor in panels]
    sets = {}
    for levels in product(*(factor.levels for factor in panels)):
        place = dict(zip(names, levels, strict=True))
        sets[row_of(found, place), column_of(found, place)] = str(place.get(GPUS, fixed))
    return sets


def row_of(found: Roles, place: dict[str, str]) -> str:
    """Return the head of the row that a setting belongs to."""
    return f"{found.row.title} {found.row.shown(place[found.row.name])}" if found.row else ""


def column_of(found: Roles, place: dict[str, str]) -> str:
    """Return the head of its column."""
    return ", ".join(f"{f.title} {f.shown(place[f.name])}" for f in found.columns)
