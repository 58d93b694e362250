"""What the figures of effects share: when they apply, and the means of levels."""

from __future__ import annotations

import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.effects import missing


def why_not(analysis: Analysis) -> str | None:
    """Effects need two factors and every cell of the design."""
    if analysis.parts:
        return "the parts of this study have other factors each"
    if len(analysis.factors) < 2:
        return "fewer than two factors varied"
    for phase in analysis.phases:
        lost, whole = missing(analysis.measured(phase), analysis.factors)
        if lost:
            return (
                f"{lost} of {whole} cells have no {phase} that may be shown, and means over "
                "unlike sets of settings would mislead"
            )
    return None


def cells(analysis: Analysis, phase: str) -> pl.DataFrame:
    """The median time of each setting, with its factors."""
    names = [factor.name for factor in analysis.factors]
    medians = analysis.measured(phase).group_by(names, maintain_order=True)
    return medians.agg(pl.col("s").median())
