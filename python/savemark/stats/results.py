"""What one target comes to: its ceilings, its cells, and the groups that lead."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from savemark.records import Run, cores, phases
from savemark.records.naming import setting
from savemark.stats.ceilings import Bounds, Ceilings, ceilings
from savemark.stats.cells import TOTAL, Cell, Key, cells
from savemark.stats.spread import Spread
from savemark.stats.ties import group_of_best

# Amounts that differ by less are the same work: a last block, the padding of a codec.
UNLIKE = 1.02


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best cell by one measure, and the cells that the repeats cannot tell from the fastest.

    Where speed cannot decide, CPU does: of the leading group's cells whose medians are within 5 %
    of the fastest's, `best` costs the least CPU per GiB. A median so little lower is chance, a
    lower CPU cost is not; one further off may be slower indeed, and only more repeats would tell.
    """

    measure: str
    best: Cell
    fastest: Cell
    tied: tuple[Cell, ...]
    test: str  # by which the tied were held against the fastest; empty where none can be made
    findable: float | None  # the difference, as a share, that 4 of 5 such runs would show
    compared: int
    p_adjusted: dict[str, float]

    @property
    def tested(self) -> bool:
        """Whether the repeats allow a test."""
        return bool(self.test)

    @property
    def repeats(self) -> int:
        """The fewest repeats among the best and what is tied with it."""
        return min(cell.n for cell in (self.best, *self.tied))

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
        return list(dict.fromkeys(name for cell in self.cells for name in cell.ran))

    def ranking(self, measure: str) -> Ranking | None:
        """The leading group by `total` or by one phase; blocked and empty cells do not compete.

        None also where a blocked cell was faster than all that compete: nobody knows by how much
        it really is, so those that are left are no advice.
        """
        if self.faster_blocked(measure):
            return None
        names = self.phases
        entrants = [cell for cell in self.cells if competes(cell, measure, names)]
        if not entrants:
            return None
        group = group_of_best([each.by_repeat for each in self.compared(entrants, measure)])
        p_values = zip(entrants, group.p_adjusted, strict=True)
        leading = [entrants[i] for i in (group.best, *group.tied)]
        best = min((entrants[i] for i in group.near), key=lambda cell: _cpu(cell, measure))
        return Ranking(
            measure=measure,
            best=best,
            fastest=entrants[group.best],
            tied=tuple(cell for cell in leading if cell is not best),
            test=group.test,
            findable=group.findable,
            compared=len(entrants),
            p_adjusted={cell.setting: p for cell, p in p_values if p is not None},
        )

    def faster_blocked(self, measure: str) -> list[str]:
        """The ids of the checks that forbid a cell which was faster than all that compete."""
        names = self.phases
        may = [cell for cell in self.cells if competes(cell, measure, names)]
        first = min((cell.places.get(measure, 0) for cell in may), default=0)
        ahead = (c for c in self.cells if c.blocked and c.places.get(measure, first) < first)
        return sorted({check for cell in ahead for check in _forbid(cell, measure)})

    @property
    def unlike(self) -> bool:
        """Whether the trials did unlike amounts of work: then seconds are compared per amount."""
        known = [amount for cell in self.cells for amount in cell.amounts if cell.n]
        least, most = min(known, default=0), max(known, default=0)
        return bool(least) and most > UNLIKE * least

    def compared(self, some: Sequence[Cell], measure: str) -> list[Spread]:
        """What cells are ranked by: seconds, or where the work is unlike, seconds per amount.

        A time limit or another count of iterations makes times of unlike work, which say nothing.
        """
        if self.unlike:
            return [cell.paces[measure] for cell in some]
        found = [cell.total if measure == TOTAL else cell.phases[measure].seconds for cell in some]
        return [each for each in found if each is not None]  # who has none does not compete

    def scales(self) -> dict[str, float]:
        """By setting: what its times are multiplied by before they are compared with another's.

        1 where all cells did the same work, else the smallest amount / its own.
        """
        amounts = {cell.setting: cell.amounts[1] for cell in self.cells}
        if not self.unlike:
            return dict.fromkeys(amounts, 1.0)
        least = min(amount for amount in amounts.values() if amount)
        return {name: least / amount if amount else 1.0 for name, amount in amounts.items()}

    def by_variant(self) -> dict[str, TargetResult]:
        """The cells apart by what varies besides the leading factors: only like is averaged."""
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

    def block(self, blocked: Mapping[Key, str]) -> TargetResult:
        """The same result with some phases of some cells marked as not to be shown."""
        mine: dict[str, dict[str, str]] = {}
        for (label, name, phase), check in blocked.items():
            if label == self.label:
                mine.setdefault(name, {})[phase] = check
        places = {measure: self._places(measure) for measure in (TOTAL, *self.phases) if mine}
        marked = []
        for cell in self.cells:
            own = {m: order[cell.setting] for m, order in places.items() if cell.setting in order}
            marked.append(replace(cell, blocked=mine.get(cell.setting, {}), places=own))
        return replace(self, cells=tuple(marked))

    def _places(self, measure: str) -> dict[str, int]:
        """By setting: how many have a smaller median, of those that have the measure."""
        names = self.phases if measure == TOTAL else [measure]
        some = [cell for cell in self.cells if cell.total and set(names) <= set(cell.phases)]
        medians = [each.median for each in self.compared(some, measure)]
        order = sorted(medians)
        return {
            cell.setting: bisect_left(order, each) for cell, each in zip(some, medians, strict=True)
        }

    def visible(self) -> TargetResult:
        """The same result without the numbers that a check forbids."""
        return replace(self, cells=tuple(cell.visible() for cell in self.cells))


def results(run: Run, frame: pl.DataFrame | None = None) -> list[TargetResult]:
    """One result per target, in the order of the run."""
    table = phases(run) if frame is None else frame
    places = {target.label: target.target for target in run.targets}
    for label in table.filter(pl.col("role") == "trial")["label"].unique(maintain_order=True):
        places.setdefault(label, label)
    usable, found = cores(run.host), []
    # The same levels come again with each repeat.
    ran = {f"{e.label} {e.factors}": e for e in run.entries if e.role == "trial"}.values()
    varied = {
        (entry.label, setting(entry.factors)): {
            name: level for name, level in entry.factors.items() if name != "target"
        }
        for entry in ran
    }
    for label, place in places.items():
        tops = ceilings(table, label)
        made = (
            replace(cell, factors=varied.get((label, cell.setting), {}))
            for cell in cells(table, label, Bounds(tops, usable))
        )
        found.append(TargetResult(label, place, tops, tuple(made)))
    return found


def competes(cell: Cell, measure: str, names: Sequence[str]) -> bool:
    """Whether a cell may be ranked: it has what is measured, and no check forbids it."""
    wanted = list(names) if measure == TOTAL else [measure]
    whole = cell.total is not None or measure != TOTAL
    return whole and all(n in cell.phases and n not in cell.blocked for n in wanted)


def _forbid(cell: Cell, measure: str) -> list[str]:
    """The checks that keep a cell from being ranked by a measure."""
    return [check for phase, check in cell.blocked.items() if measure in (TOTAL, phase)]


def _cpu(cell: Cell, measure: str) -> float:
    """What a cell costs, in the unit that its work is counted in."""
    part = cell if measure == TOTAL else cell.phases[measure]
    return part.cpu_s_per_operation if cell.counted else part.cpu_s_per_gib
