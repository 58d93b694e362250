"""How much of the variation each factor explains: a fixed-effects analysis of variance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import polars as pl

from savemark.report.factors import Factor

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Effects:
    """Shares of the variation of log time; they add up to one."""

    main: dict[str, float]
    pairs: dict[tuple[str, str], float]
    higher: float
    repeats: float
    repeated: bool  # whether any cell has more than one repeat: else the noise is unknown


def missing(rows: pl.DataFrame, factors: Sequence[Factor]) -> tuple[int, int]:
    """Cells that hold no trial, and all cells of the design."""
    whole = 1
    for factor in factors:
        whole *= len(factor.levels)
    return whole - rows.select(_names(factors)).n_unique(), whole


def effects(rows: pl.DataFrame, factors: Sequence[Factor]) -> Effects | None:
    """Shares of the sum of squares of ln(time); `rows` has the factors and `s`, seconds.

    Every cell weighs the same (the mean of its repeats stands for it), so the parts are orthogonal.
    The logarithm, because what factors do to times is to multiply them. None if nothing varies.
    Source: Montgomery, Design and Analysis of Experiments, 5.4 (general factorial design).
    """
    names = _names(factors)
    logs = rows.with_columns(y=pl.col("s").log())
    cells = logs.group_by(names, maintain_order=True).agg(
        pl.col("y").mean(), within=pl.col("y").var(ddof=0)
    )
    centre = float(cells["y"].mean())  # type: ignore[arg-type]
    between = float(((cells["y"] - centre) ** 2).mean())  # type: ignore[arg-type]
    within = float(cells["within"].fill_null(0.0).mean())  # type: ignore[arg-type]
    total = between + within
    if not total:
        return None
    part = {(name,): _part(cells, (name,), centre) for name in names}
    main = {name: part[name,] / total for name in names}
    pairs = {}
    for a, b in combinations(names, 2):
        both = _part(cells, (a, b), centre)
        pairs[a, b] = max(0.0, both - part[a,] - part[b,]) / total
    higher = max(0.0, between / total - sum(main.values()) - sum(pairs.values()))
    repeated = len(rows) > len(cells)
    return Effects(main, pairs, higher, within / total, repeated)


def _names(factors: Sequence[Factor]) -> list[str]:
    return [factor.name for factor in factors]


def _part(cells: pl.DataFrame, names: Names, centre: float) -> float:
    """The mean square of the level means around the centre, each cell counting once."""
    means = cells.group_by(names, maintain_order=True).agg(pl.col("y").mean(), n=pl.len())
    return float((means["n"] * (means["y"] - centre) ** 2).sum()) / len(cells)
