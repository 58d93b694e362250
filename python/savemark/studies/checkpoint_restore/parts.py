"""The study `checkpoint-restore` in parts: a storage, and what varies besides codec and streams."""

from __future__ import annotations

from dataclasses import dataclass

from savemark.report.analysis import Analysis
from savemark.stats import Spread, TargetResult, group_of_best
from savemark.studies.checkpoint_restore.legacy import Legacy, of_result

STUDY = "checkpoint-restore"


@dataclass(frozen=True, slots=True)
class Part:
    """One storage with one payload (process, memory limit): only in here is like with like."""

    label: str
    variant: str
    result: TargetResult
    legacy: Legacy

    @property
    def title(self) -> str:
        """Its name in front of a reader."""
        return f"{self.label}, {self.variant}" if self.variant else self.label

    def total(self, codec: str, streams: int) -> Spread:
        """Save + restore of one cell in seconds."""
        cells = (c for c in self.result.cells if (c.codec, c.streams) == (codec, streams))
        total = next(cells).total
        assert total is not None  # a cell with a save and a restore has a total
        return total


def original(analysis: Analysis) -> bool:
    """Whether the tables of that study, and their corrected twins, say something about this run.

    They are made of that study, and of files of other programs, which may be its own.
    """
    return analysis.run.study_name == STUDY or analysis.run.origin == "imported"


def parts(analysis: Analysis) -> list[Part]:
    """Return the parts that have a finished save and restore which may be shown."""
    found = []
    for result in analysis.results:
        for variant, part in result.by_variant().items():
            if data := of_result(part, show_blocked=analysis.show_blocked):
                found.append(Part(result.label, variant, part, data))
    return found


def variants(analysis: Analysis) -> dict[str, list[Part]]:
    """Return the storages by variant: what may be compared across storages."""
    found: dict[str, list[Part]] = {}
    for part in parts(analysis):
        found.setdefault(part.variant, []).append(part)
    return found


def why_not(analysis: Analysis) -> str | None:
    """Why the figures of this study are not drawn for a run, or None."""
    if analysis.run.study_name != STUDY:
        return f"it belongs to the study {STUDY}"
    return None if parts(analysis) else "no finished save and restore may be shown"


def several(analysis: Analysis) -> str | None:
    """The same for figures that compare storages."""
    if why := why_not(analysis):
        return why
    enough = any(len(same) > 1 for same in variants(analysis).values())
    return None if enough else "there is one storage, so nothing to compare it with"


def common(same: list[Part]) -> list[tuple[str, int]]:
    """Return the (codec, streams) that every one of these storages has: only they compare."""
    cells = [set(part.legacy.cells) for part in same]
    return [cell for cell in same[0].legacy.cells if all(cell in each for each in cells)]


def leading(same: list[Part], cell: tuple[str, int]) -> set[str]:
    """Return the storages that the repeats cannot tell from the fastest one in this cell."""
    totals = [part.total(*cell) for part in same]
    group = group_of_best([total.by_repeat for total in totals])
    return {same[i].label for i in (group.best, *group.tied)}
