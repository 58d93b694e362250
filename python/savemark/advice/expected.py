"""Whether the figures of a run are what was expected, and how many repeats would tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import polars as pl

from savemark.records.head import Study
from savemark.stats.cells import Cell
from savemark.stats.results import TargetResult
from savemark.stats.spread import Spread, interval_rank, spread
from savemark.study.expect import Expectation, levels_of

# More repeats than this nobody is told to measure.
MOST_REPEATS = 1000


class Outcome(StrEnum):
    """From best to worst; only `passed` is good."""

    PASSED = "passed"
    NOT_SHOWN = "not shown"
    NOT_MEASURED = "not measured"
    BLOCKED = "blocked"
    FAILED = "failed"


ORDER = list(Outcome)


@dataclass(frozen=True, slots=True)
class Judged:
    """One setting: the metric of its repeats with the interval that was held against the bound."""

    label: str
    setting: str
    outcome: Outcome
    values: Spread | None = None
    blocked_by: str = ""
    repeats: int | None = None  # in all, with which it would be told; None: not by repeats


@dataclass(frozen=True, slots=True)
class Answer:
    """One expectation, all settings that it is about, and the one that decides."""

    expectation: Expectation
    outcome: Outcome
    cells: tuple[Judged, ...]
    deciding: Judged | None

    @property
    def met(self) -> int:
        """How many settings meet it."""
        return sum(cell.outcome is Outcome.PASSED for cell in self.cells)


@dataclass(frozen=True, slots=True)
class Confidence:
    """What an interval has to reach before a setting counts as passed, and as failed.

    Where one of k settings is enough (`any`), chance has k tries to let one pass; where all have
    to, k tries to let one fail. That side's interval is widened (Bonferroni); the other is not, as
    all k have to err together.
    """

    passed: float
    failed: float

    @classmethod
    def of(cls, line: Expectation, settings: int) -> Confidence:
        """For an expectation about so many settings."""
        strict = 1 - (1 - line.confidence) / max(settings, 1)
        return cls(strict, line.confidence) if line.any else cls(line.confidence, strict)


def judge(
    study: Study,
    factors: Mapping[tuple[str, str], Mapping[str, Any]],
    frame: pl.DataFrame,
    results: Sequence[TargetResult],
    expectations: Sequence[Expectation],
) -> list[Answer]:
    """Hold each expectation against the settings that it is about.

    `study` is that of `run.json`, `factors` those of each (label, setting).
    """
    cells = [(cell, levels_of(study, factors.get((cell.label, cell.setting), {}), cell.label))
             for result in results for cell in result.cells]  # fmt: skip
    return [
        _answer(one, [cell for cell, levels in cells if one.covers(levels)], frame)
        for one in expectations
    ]


def _answer(line: Expectation, cells: Sequence[Cell], frame: pl.DataFrame) -> Answer:
    # Parts of a study have other phases: a setting that cannot have this one is not asked.
    asked = [cell for cell in cells if line.phase in cell.ran or not cell.ran]
    asked = asked if any(cell.ran for cell in asked) else list(cells)
    level = Confidence.of(line, len(asked))
    judged = tuple(_judge(line, cell, _values(line, cell, frame), level) for cell in asked)
    if not judged:
        return Answer(line, Outcome.NOT_MEASURED, (), None)
    choose = min if line.any else max
    deciding = choose(judged, key=lambda each: (ORDER.index(each.outcome), _short(line, each)))
    return Answer(line, deciding.outcome, judged, deciding)


def _short(line: Expectation, judged: Judged) -> float:
    """How far a median falls short of the bound; nothing measured is as short as can be."""
    if judged.values is None:
        return float("inf")
    return (line.bound - judged.values.median) * (1 if line.sign[0] == ">" else -1)


def _values(line: Expectation, cell: Cell, frame: pl.DataFrame) -> list[float]:
    rows = frame.filter(
        (pl.col("role") == "trial")
        & (pl.col("label") == cell.label)
        & (pl.col("setting") == cell.setting)
        & (pl.col("phase") == line.phase)
    )
    found = (line.metric.of(row) for row in rows.iter_rows(named=True))
    return [value for value in found if value is not None]


def _judge(line: Expectation, cell: Cell, values: Sequence[float], level: Confidence) -> Judged:
    if check := cell.blocked.get(line.phase):
        return Judged(cell.label, cell.setting, Outcome.BLOCKED, blocked_by=check)
    if not values:
        return Judged(cell.label, cell.setting, Outcome.NOT_MEASURED)
    shown = spread(values, level.passed)
    outcome, repeats = Outcome.NOT_SHOWN, None
    if shown.coverage is not None and line.holds(shown.low) and line.holds(shown.high):
        outcome = Outcome.PASSED
    else:
        wide = spread(values, level.failed)
        if wide.coverage is not None and not (line.holds(wide.low) or line.holds(wide.high)):
            outcome, shown = Outcome.FAILED, wide
        else:
            repeats = repeats_to_decide([line.holds(value) for value in values], level)
    return Judged(cell.label, cell.setting, outcome, shown, repeats=repeats)


def repeats_to_decide(right: Sequence[bool], level: Confidence) -> int | None:
    """Repeats in all with which the interval would leave the bound out, if the rest go as these.

    The interval from the k-th smallest to the k-th largest leaves it out when fewer than k samples
    lie on its other side; of n repeats that is the share seen so far. None: not by MOST_REPEATS.
    """
    n, holding = len(right), sum(right)
    wanted = level.passed if 2 * holding >= n else level.failed
    share, more = min(holding, n - holding) / n, n
    while (more := more + max(1, more // 20)) <= MOST_REPEATS:
        rank, coverage = interval_rank(more, wanted)
        if coverage is not None and round(share * more) < rank:
            return more
    return None
