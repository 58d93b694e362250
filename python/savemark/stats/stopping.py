"""How precisely each setting is known, and whether it may stop being repeated."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from savemark.records.run import Entry, Run
from savemark.stats.spread import spread

CellId = tuple[str, str]  # label, factors as JSON: the same in the plan and in the records


@dataclass(frozen=True, slots=True)
class Precision:
    """One setting: finished repeats, failed ones, and the widest interval of its phases."""

    cell: CellId
    entry: Entry
    n: int
    failed: int
    half_width: float | None  # as a share of the median; None below six repeats


@dataclass(frozen=True, slots=True)
class Stopping:
    """What became of the rule of an adaptive run."""

    limit: float
    most: int
    reached: tuple[Precision, ...]
    open: tuple[Precision, ...]  # stopped by the cap, or not there yet


def cell_id(label: str, factors: Mapping[str, object]) -> CellId:
    """Name a cell by what its trials share."""
    return label, json.dumps(factors, sort_keys=True)


def precisions(entries: Iterable[Entry]) -> list[Precision]:
    """Return each setting's precision; ceilings and preparing phases do not count.

    A setting is as precise as its least precise phase.
    """
    cells: dict[CellId, list[Entry]] = {}
    for entry in entries:
        if entry.role == "trial":
            cells.setdefault(cell_id(entry.label, entry.factors), []).append(entry)
    return [_precision(cell, of) for cell, of in cells.items()]


def open_cells(entries: Iterable[Entry], limit: float) -> set[CellId]:
    """Return the settings that need more repeats.

    A setting that never finished a repeat will not by being repeated: it is left alone.
    """
    return {each.cell for each in precisions(entries) if each.n and not _within(each, limit)}


def stopping(run: Run) -> Stopping | None:
    """Return which settings met the run's rule and which did not; None for a run without one."""
    limit = run.study.until
    if limit is None:
        return None
    found = precisions(run.entries)
    return Stopping(
        limit=limit,
        most=run.study.max_repeats or 0,
        reached=tuple(each for each in found if _within(each, limit)),
        open=tuple(each for each in found if not _within(each, limit)),
    )


def _within(precision: Precision, limit: float) -> bool:
    return precision.half_width is not None and precision.half_width < limit


def _precision(cell: CellId, entries: Sequence[Entry]) -> Precision:
    seconds: dict[str, list[float]] = {}
    for entry in entries:
        for phase in entry.phases if entry.ok else []:
            if phase.name != "prepare":
                elapsed_ns = max(phase.elapsed_ns or 0, 1)
                seconds.setdefault(phase.name, []).append(elapsed_ns / 1e9)
    widths = [spread(samples).half_width for samples in seconds.values()]
    known = [width for width in widths if width is not None]
    finished = sum(entry.ok for entry in entries)
    return Precision(
        cell=cell,
        entry=entries[0],
        n=finished,
        failed=len(entries) - finished,
        half_width=max(known) if known and len(known) == len(widths) else None,
    )
