"""What the policies buy, and the original's figures behind what is wrong with them."""

from __future__ import annotations

from savemark.report.additions import Pictures
from savemark.report.analysis import Analysis
from savemark.report.document import Block, Fold, Text
from savemark.studies.durability import legacy
from savemark.studies.durability.policies import tables

__all__ = ["folds", "tables"]


def folds(analysis: Analysis, pictures: Pictures) -> list[Block]:
    """The original's figures, apart from those to trust."""
    if legacy.why_not(analysis):
        return []
    title = "The original’s figures, with its definitions"
    return [Fold(title, (Text(legacy.WRONG), *pictures("legacy")))]
