"""The best setting for a goal, what cannot be told from it, and what binds it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from savemark.advice import pareto
from savemark.stats import TOTAL, Cell, Ranking, TargetResult, group_of_best, median
from savemark.stats.results import competes

GOALS = {
    "freeze": "least time saving (the application waits)",
    "restore": "least time restoring",
    "bytes": "fewest bytes stored",
    "cpu": "least CPU",
    "balanced": "a fair trade of time, bytes and CPU",
}
PHASES = {"freeze": ("save", "write"), "restore": ("restore", "read")}
SAME_BYTES = 1.01  # stored sizes less than 1 % apart are the same
SAME = 0.02  # costs less than 2 % apart are no trade-off
RESAMPLES = 400
OFTEN = 0.05  # a setting that more than so many resamples choose is tied
SEED = 2006

Scales = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Best:
    """The setting to use for a goal; `rule` says by what the tied ones were told apart."""

    goal: str
    cell: Cell
    tied: tuple[Cell, ...]
    rule: str

    @property
    def binds(self) -> dict[str, str]:
        """Per phase with a ceiling: what binds it, and how much of that is reached."""
        return {
            name: f"{phase.of_limit or 0:.0%} of {phase.limit.name}".replace("%", " %")
            for name, phase in self.cell.phases.items()
            if phase.limit and name not in self.cell.blocked
        }


def best(result: TargetResult, goal: str) -> Best | None:
    """Return the best setting of one target, None where no setting has what the goal asks for.

    None also where a check forbids the number of a setting that was faster than all others: the
    best of those that are left is no advice.

    Of settings that tie and are within 5 % of the best, the one with the least CPU is taken (for
    `cpu` and `bytes`: the least time): a median so little lower is chance, a lower cost is not.
    """
    if goal in PHASES:
        name = next((n for n in PHASES[goal] if n in result.phases), "")
        return _of_ranking(goal, result.ranking(name) if name else None)
    cells = _weighed(result)
    if not cells or result.faster_blocked(TOTAL):
        return None
    return {"bytes": _bytes, "cpu": _cpu, "balanced": _balanced}[goal](cells, result.scales())


def trade_offs(result: TargetResult) -> list[Cell]:
    """Return the settings on the Pareto front of total time, stored bytes and CPU, fastest first.

    From medians; costs less than 2 % apart count as equal. None where a faster one is forbidden.
    """
    cells = [] if result.faster_blocked(TOTAL) else _weighed(result)
    scales = result.scales()
    points = [costs(cell, scales[cell.setting]) for cell in cells]
    return [cells[i] for i in sorted(pareto.front(points, SAME), key=lambda i: points[i][0])]


def costs(cell: Cell, scale: float = 1.0) -> tuple[float, float, float]:
    """Seconds of all phases, stored bytes of the state, CPU-seconds per GiB.

    `scale` brings settings that moved unlike amounts to one amount (`TargetResult.scales`).
    """
    seconds = cell.total.median if cell.total else 0.0
    return (seconds * scale, stored(cell) * scale, cell.cpu_s_per_gib)


def stored(cell: Cell) -> int:
    """Bytes that the state takes on the storage."""
    return next((phase.stored_bytes for phase in cell.phases.values()), 0)


def _weighed(result: TargetResult) -> list[Cell]:
    """Return the cells that may be ranked and whose bytes are known (imported ones may not be)."""
    return [c for c in result.cells if c.sized and competes(c, TOTAL, result.phases)]


def _of_ranking(goal: str, ranking: Ranking | None) -> Best | None:
    if ranking is None:
        return None
    return Best(
        goal,
        ranking.best,
        ranking.tied,
        f"{_rule(ranking.test)}; within 5 % of the best the least CPU",
    )


def _bytes(cells: Sequence[Cell], scales: Scales) -> Best:
    kept = [costs(cell, scales[cell.setting])[1] for cell in cells]
    least = min(kept)
    same = [cell for cell, count in zip(cells, kept, strict=True) if count <= SAME_BYTES * least]
    return _fastest("bytes", same, scales, "less than 1 % apart; of these the least time")


def _cpu(cells: Sequence[Cell], scales: Scales) -> Best:
    group = group_of_best([_cpu_by_repeat(cell) for cell in cells])
    near = [cells[i] for i in group.near]
    far = tuple(cells[i] for i in group.tied if i not in group.near)
    rule = f"{_rule(group.test)}; within 5 % of the best the least time"
    found = _fastest("cpu", near, scales, rule)
    return replace(found, tied=(*found.tied, *far))


def _rule(test: str) -> str:
    return f"not told apart by {test}" if test else "too few repeats to tell anything apart"


def _cpu_by_repeat(cell: Cell) -> dict[int, float]:
    """What a cell cost in each repeat, as its times are known by repeat."""
    assert cell.total is not None  # cells without one do not compete
    return dict(zip(cell.total.by_repeat, cell.cpu_samples, strict=True))


def _balanced(cells: Sequence[Cell], scales: Scales) -> Best:
    """Choose by medians; tied is what resampled repeats (Efron 1979) choose too."""
    scale = [scales[cell.setting] for cell in cells]
    points = [costs(cell, each) for cell, each in zip(cells, scale, strict=True)]
    chosen = pareto.nearest_to_ideal(points, SAME)
    rng, times = random.Random(SEED), Counter[int]()
    for _ in range(RESAMPLES):
        drawn = [_resampled(cell, each, rng) for cell, each in zip(cells, scale, strict=True)]
        times[pareto.nearest_to_ideal(drawn, SAME)] += 1
    tied = [i for i, n in times.most_common() if n > OFTEN * RESAMPLES and i != chosen]
    rule = "nearest to the best of time, bytes and CPU at once; tied: chosen by resampled repeats"
    return Best("balanced", cells[chosen], tuple(cells[i] for i in tied), rule)


def _resampled(cell: Cell, scale: float, rng: random.Random) -> tuple[float, float, float]:
    assert cell.total is not None  # cells without one do not compete
    times = rng.choices(cell.total.samples, k=cell.n)
    cpu = rng.choices(cell.cpu_samples, k=len(cell.cpu_samples))
    return median(times) * scale, stored(cell) * scale, median(cpu)


def _fastest(goal: str, cells: list[Cell], scales: Scales, rule: str) -> Best:
    first, *rest = sorted(cells, key=lambda cell: costs(cell, scales[cell.setting])[0])
    return Best(goal, first, tuple(rest), rule)
