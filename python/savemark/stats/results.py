"""What one target comes to: its ceilings, its cells, and the groups that lead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from savemark.records import Run, cores, phases
from savemark.stats.ceilings import Ceilings, ceilings
from savemark.stats.cells import Cell, cells
from savemark.stats.compare import group_of_best

TOTAL = "total"
# Amounts that differ by less are the same work: a last block, the padding of a codec.
UNLIKE = 1.02


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best cell by one measure, and the cells that the repeats cannot tell from the fastest.

    Where speed cannot decide, CPU does: `best` is the cell of the leading group that costs the
    least CPU per GiB. A lower median inside the group is chance, a lower CPU cost is not.
    """

    measure: str
    best: Cell
    tied: tuple[Cell, ...]
    tested: bool
    needed: int
    compared: int
    p_adjusted: dict[str, float]

    @property
    def settings(self) -> set[str]:
        """The whole group."""
        return {self.best.setting, *(cell.setting for cell in self.tied)}


@dataclass(frozen=True, slots=True)
class TargetResult:
    """Everything computed about one target."""

    label: str
    target: str
    ceilings: Ceilings
    cells: tuple[Cell, ...]

    @property
    def phases(self) -> list[str]:
        """The names of the phases, in the order in which they run."""
        return list(dict.fromkeys(name for cell in self.cells for name in cell.phases))

    def ranking(self, measure: str) -> Ranking | None:
        """The leading group by `total` or by one phase; blocked and empty cells do not compete."""
        seconds = _seconds(measure)
        entrants = [cell for cell in self.cells if competes(cell, measure, self.phases)]
        if not entrants:
            return None
        scales = self.scales()
        spreads = [(seconds(cell), scales[cell.setting]) for cell in entrants]
        samples = [[s * scale for s in each[0]] for each, scale in spreads]
        group = group_of_best(samples, [each[1] * scale for each, scale in spreads])
        p_values = zip(entrants, group.p_adjusted, strict=True)
        leading = [entrants[i] for i in (group.best, *group.tied)]
        best = min(leading, key=lambda cell: cell.cpu_s_per_gib)
        return Ranking(
            measure=measure,
            best=best,
            tied=tuple(cell for cell in leading if cell is not best),
            tested=group.tested,
            needed=group.needed,
            compared=len(entrants),
            p_adjusted={cell.setting: p for cell, p in p_values if p is not None},
        )

    def scales(self) -> dict[str, float]:
        """By setting: what its times are multiplied by before they are compared with another's.

        1 where all cells moved the same bytes. Where they did not (a time limit, another count of
        iterations), the smallest amount / its own: times of unlike work say nothing.
        """
        amounts = {cell.setting: _amount(cell) for cell in self.cells}
        least, most = min(amounts.values(), default=0), max(amounts.values(), default=0)
        if not least or most <= UNLIKE * least:
            return dict.fromkeys(amounts, 1.0)
        return {setting: least / amount for setting, amount in amounts.items()}

    def by_variant(self) -> dict[str, TargetResult]:
        """The cells apart by what varies besides codec and streams: only like is averaged."""
        return self._apart(lambda cell: cell.variant)

    def by_given(self) -> dict[str, TargetResult]:
        """The cells apart by what is saved: it is not chosen, so it does not compete."""
        return self._apart(lambda cell: cell.given)

    def _apart(self, key: Callable[[Cell], str]) -> dict[str, TargetResult]:
        groups: dict[str, list[Cell]] = {}
        for cell in self.cells:
            groups.setdefault(key(cell), []).append(cell)
        parts = {name: replace(self, cells=tuple(group)) for name, group in groups.items()}
        return parts or {"": self}

    def block(self, blocked: dict[tuple[str, str, str], str]) -> TargetResult:
        """The same result with some phases of some cells marked as not to be shown."""
        marked = []
        for cell in self.cells:
            mine = {
                p: c
                for (label, s, p), c in blocked.items()
                if (label, s) == (cell.label, cell.setting)
            }
            marked.append(replace(cell, blocked=mine))
        return replace(self, cells=tuple(marked))


def results(run: Run, frame: pl.DataFrame | None = None) -> list[TargetResult]:
    """One result per target, in the order of the run."""
    table = phases(run) if frame is None else frame
    places = {target.label: target.target for target in run.targets}
    for label in table.filter(pl.col("role") == "trial")["label"].unique(maintain_order=True):
        places.setdefault(label, label)
    usable, found = cores(run.host), []
    for label, place in places.items():
        tops = ceilings(table, label)
        found.append(TargetResult(label, place, tops, tuple(cells(table, label, tops, usable))))
    return found


def _amount(cell: Cell) -> int:
    return max((phase.user_bytes for phase in cell.phases.values()), default=0)


def competes(cell: Cell, measure: str, names: Sequence[str]) -> bool:
    """Whether a cell may be ranked: it has what is measured, and no check forbids it."""
    wanted = list(names) if measure == TOTAL else [measure]
    return bool(cell.total) and all(n in cell.phases and n not in cell.blocked for n in wanted)


def _seconds(measure: str) -> Callable[[Cell], tuple[tuple[float, ...], float]]:
    def of(cell: Cell) -> tuple[tuple[float, ...], float]:
        found = cell.total if measure == TOTAL else cell.phases[measure].seconds
        assert found is not None  # cells without one do not compete
        return found.samples, found.median

    return of
