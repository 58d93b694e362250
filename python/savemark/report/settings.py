"""The main table: a line per setting, fastest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from savemark.report import columns
from savemark.report.analysis import Analysis, ranked
from savemark.report.columns import FIRST, LAST, PHASE, Column, Row, place, within
from savemark.report.document import BLANK, MISSING, Datum, Line, Table
from savemark.report.factors import PART, Factor, amount
from savemark.report.text import counts, gbs, kinds
from savemark.stats import Cell, PhaseStat, TargetResult
from savemark.stats.cells import BYTES

# Lines of a table on the page: what nobody scrolls through is in the CSV.
MOST = 500
PROMISE = {"save": "(durable)", "restore": "(verified)"}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that compete on one target, from fastest to slowest."""

    name: str
    title: str
    part: str  # of a study in parts, or what is saved: the beginning of every setting's name
    result: TargetResult
    rows: list[Row]
    levels: list[dict[str, str]]  # of each row, by the name of the factor
    factors: list[Factor]  # with a column each; empty where the setting's name is short
    coded: bool

    @property
    def counted(self) -> bool:
        """Whether the speeds of these settings are numbers of operations."""
        cells = self.result.cells
        return bool(cells) and all(cell.counted for cell in cells if cell.ran)

    def unit(self, phase: str) -> str:
        """The unit of a phase's speed; of files of several tools, that of the first."""
        cells = self.result.cells
        return next((cell.ran[phase] for cell in cells if phase in cell.ran), BYTES)

    def features(self, phase: str = "") -> frozenset[str]:
        """What the numbers are, of one phase or of the whole (see `Column`)."""
        counted = self.unit(phase) != BYTES if phase else self.counted
        coded = {"coded"} if self.coded and not self.counted else set()
        return frozenset({"operations" if counted else "bytes"} | coded)

    def heads(self, phase: str) -> dict[str, str]:
        """What the heads of a phase's columns fill in."""
        everywhere = [p.seconds for cell in self.result.cells for p in cell.phases.values()]
        here = [c.phases[phase].seconds for c in self.result.cells if phase in c.phases]
        return {
            "phase": phase,
            "unit": self.unit(phase),
            "kind": (kinds(here) if here else "range").split(",")[0],
            "kinds": kinds(everywhere) if everywhere else "range",
        }


def settings(analysis: Analysis) -> Iterator[Settings]:
    """One per target, and where what is saved varies, one for each of that."""
    levels = analysis.levels()
    for result in analysis.results:
        for part, own in analysis.apart(result).items():
            yield _settings(analysis, own, part, levels)


def whole(analysis: Analysis) -> Iterator[Settings]:
    """One per target, whatever is saved."""
    levels = analysis.levels()
    for result in analysis.results:
        yield _settings(analysis, result, "", levels)


def _settings(
    analysis: Analysis,
    result: TargetResult,
    part: str,
    levels: dict[tuple[str, str], dict[str, str]],
) -> Settings:
    cells, ranking = ranked(result)
    where = f" on {result.label}" if len(analysis.results) > 1 else ""
    return Settings(
        f"settings_{result.label}" + (f"_{part}" if part else ""),
        f"Every setting{where}" + (f", {part}" if part else ""),
        part,
        result,
        [Row(cell, place(cell, ranking)) for cell in cells],
        [levels.get((cell.label, cell.setting), {}) for cell in cells],
        _factors(analysis, result) if analysis.short_title is not None else [],
        analysis.coded,
    )


def _factors(analysis: Analysis, result: TargetResult) -> list[Factor]:
    """The factors that tell these cells apart: of a study in parts, those of this part."""
    own = analysis.own_factors
    if not analysis.parts:
        return own
    rows = analysis.frame.filter(pl.col("setting").is_in([c.setting for c in result.cells]))
    return [f for f in own if f.name != PART and rows[f.name].null_count() < len(rows)]


def table(found: Settings) -> Table:
    """The table of the page and of Markdown: all columns."""
    features = {name: found.features(name) | {"wide", "limit"} for name in found.result.phases}
    first, last = _headed(FIRST), _headed(within(LAST, found.features() | {"cpu"}))
    phases = {name: _headed(within(PHASE, each)) for name, each in features.items()}
    names = [factor.title for factor in found.factors] or ["setting"]
    heads, groups = [*names, *(str(c.head) for c in first)], [("", len(names) + len(first))]
    for name, own in phases.items():
        heads += [str(c.head).format(**found.heads(name)) for c in own]
        groups.append((name, len(own)))
    lines = []
    for row, levels in zip(found.rows[:MOST], found.levels, strict=False):
        data = _names(found.factors, levels) or [Datum(row.cell.setting, tone="name")]
        data += [c.datum(row) for c in first]
        for name, own in phases.items():
            data += _phase(row.cell, name, own, "operations" in features[name])
        lines.append(Line([*data, *(c.datum(row) for c in last)], levels, row.place))
    groups.append(("", len(last)))
    heads += [str(c.head) for c in last]
    return Table(found.name, found.title, heads, lines, _note(found), groups, sortable=True)


def _headed(some: tuple[Column, ...] | list[Column]) -> list[Column]:
    return [c for c in some if c.head is not None]


def _names(factors: list[Factor], levels: dict[str, str]) -> list[Datum]:
    """Many factors have a column each, to sort by; two fit into one name."""
    data = []
    for index, factor in enumerate(factors):
        text = levels.get(factor.name, "–")
        number = amount(text) if factor.numeric else None
        data.append(Datum(text, number, tone="" if index else "name"))
    return data


def _phase(cell: Cell, name: str, own: list[Column], counted: bool) -> list[Datum]:
    phase, check = cell.phases.get(name), cell.blocked.get(name)
    if phase is None or phase.counted != counted:
        return _instead(phase, check, len(own))
    data = [c.datum(phase) for c in own]
    if check is None:
        return data
    data = [replace(d, tone=f"blocked {d.tone}".strip(), bar=None) for d in data]
    return [replace(data[0], text=f"blocked by {check}", tip="", tone="why"), *data[1:]]


def _instead(phase: PhaseStat | None, check: str | None, width: int) -> list[Datum]:
    """In the place of numbers: the check that forbids them, or a speed in another unit."""
    if check:
        first = Datum(f"blocked by {check}", tone="why", missing=True)
        return [first, *[BLANK] * (width - 1)]
    if phase is None:
        return [MISSING] * width
    speed = counts(phase.speed) if phase.counted else gbs(phase.user_rate)
    first = Datum(f"{speed} {phase.unit}", None, columns.trials(phase), missing=True)
    return [first, *[MISSING] * (width - 1)]


def _note(found: Settings) -> str:
    spreads = [p.seconds for cell in found.result.cells for p in cell.phases.values()]
    kind = kinds(spreads) if spreads else "range"
    if found.counted:
        cells = found.result.cells
        units = " and ".join(dict.fromkeys(unit for c in cells for unit in c.ran.values()))
        note = (
            f"{units}: operations per second, of all workers together. In brackets: {kind}. "
            "Percentiles are of one operation, from the middle repeat. CPU is user + system time "
            "of the process per operation."
        )
    else:
        lower = "ceilings that apply,"
        if found.coded:
            lower = "disk ceiling × ratio and codec speed × cores, both"
        note = (
            "GB/s = 10⁹ user bytes per second, from the median time. “Of limit” is the share of "
            f"the lower of {lower} measured in this run, and says which of them binds. In "
            f"brackets: {kind}. CPU is user + system time of the process, all phases, per GiB of "
            "state."
        )
    if (count := len(found.rows)) > MOST:
        note += f" The fastest {MOST} of {count} settings; all are in tables/settings.csv."
    return note


def records(analysis: Analysis) -> list[dict[str, Any]]:
    """The same in base units, for CSV and JSON."""
    return [
        _record(row, levels, analysis.phases)
        for found in whole(analysis)
        for row, levels in zip(found.rows, found.levels, strict=True)
    ]


def _record(row: Row, levels: dict[str, str], phases: list[str]) -> dict[str, Any]:
    cell = row.cell
    values: dict[str, Any] = {"target": cell.label, "setting": cell.setting}
    values |= {"codec": cell.codec, "streams": cell.streams}
    values |= {name: level for name, level in levels.items() if name not in values}
    values |= columns.fields((*FIRST, *LAST), row)
    for name in phases:
        own = columns.fields(PHASE, cell.phases.get(name))
        values |= {f"{name}_{key}": value for key, value in own.items()}
        values[f"{name}_blocked_by"] = cell.blocked.get(name)
    return values
