"""The main table: a line per setting, fastest first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from savemark.report.analysis import Analysis, ranked
from savemark.report.factors import PART, Factor, amount
from savemark.report.table import BLANK, MISSING, Datum, Line, Table, quantity
from savemark.report.words import (
    binds,
    counts,
    cpu,
    gbs,
    kinds,
    number,
    percent,
    seconds,
    span,
    two,
)
from savemark.stats import Cell, PhaseStat, Ranking, TargetResult
from savemark.stats.cells import BYTES, LATENCIES

# Lines of a table on the page: what nobody scrolls through is in the CSV.
MOST = 500
Levels = dict[tuple[str, str], dict[str, str]]


def tables(analysis: Analysis) -> list[Table]:
    """One per target, and where what is saved varies, one for each of that."""
    levels = analysis.levels()
    return [
        _table(analysis, part, levels, given)
        for result in analysis.results
        for given, part in analysis.apart(result).items()
    ]


def place(cell: Cell, found: Ranking | None) -> str:
    """`best`, `tied`, or nothing."""
    if found is None or cell.setting not in found.settings:
        return ""
    return "best" if cell.setting == found.best.setting else "tied"


def _table(analysis: Analysis, result: TargetResult, levels: Levels, given: str) -> Table:
    lines, found = ranked(result)
    names, coded = result.phases, analysis.coded and not counted(result)
    # Many factors: a column each, to sort by; two fit into one name.
    heads = ["setting"]
    own = _own(analysis, result)
    if analysis.short_title is not None and own:
        heads = [factor.title for factor in own]
    columns, groups = [*heads, "", "n", "total s"], [("", len(heads) + 3)]
    # Files of several tools may have a phase of one name, counted in one and sized in another.
    parts = {name: _counts(result, name) for name in names}
    for name in names:
        part = _heads(result, name, coded)
        columns += part
        groups.append((name, len(part)))
    last = _last(result, coded)
    title = f"Every setting on {result.label}" if len(analysis.results) > 1 else "Every setting"
    title += f", {given}" if given else ""
    note = _note(result, coded)
    if len(lines) > MOST:
        note += f" The fastest {MOST} of {len(lines)} settings; all are in tables/settings.csv."
    body = []
    for cell in lines[:MOST]:
        mine = levels.get((cell.label, cell.setting), {})
        named = [Datum(cell.setting, css="name")]
        if heads != ["setting"]:
            named = _levels(own, mine)
        data = [*named, *_line(cell, parts, found, coded), *_costs(cell, result, coded)]
        body.append(Line(data, mine, place(cell, found)))
    name = f"settings_{result.label}" + (f"_{given}" if given else "")
    return Table(name, title, [*columns, *last], body, note, [*groups, ("", len(last))])


def counted(result: TargetResult) -> bool:
    """Whether the speeds of these cells are numbers of operations."""
    return bool(result.cells) and all(cell.counted for cell in result.cells if cell.ran)


def _own(analysis: Analysis, result: TargetResult) -> list[Factor]:
    """The factors that tell these cells apart: of a study in parts, those of this part."""
    own = analysis.own_factors
    if not analysis.parts:
        return own
    rows = analysis.frame.filter(pl.col("setting").is_in([c.setting for c in result.cells]))
    return [f for f in own if f.name != PART and rows[f.name].null_count() < len(rows)]


def _unit(result: TargetResult, name: str) -> str:
    """The unit of the columns of a phase."""
    return next((cell.ran[name] for cell in result.cells if name in cell.ran), BYTES)


def _counts(result: TargetResult, name: str) -> bool:
    """Whether the columns of a phase are those of operations."""
    return _unit(result, name) != BYTES


def _heads(result: TargetResult, name: str, coded: bool) -> list[str]:
    """The columns of a phase: its speed in its unit, and where that is a count, the latency."""
    spreads = [cell.phases[name].seconds for cell in result.cells if name in cell.phases]
    kind = (kinds(spreads) if spreads else "range").split(",")[0]
    if _counts(result, name):
        return [_unit(result, name), f"[{kind}]", "p50", "p99", "p99.99", "CPU µs"]
    part = ["seconds", "GB/s", f"[{kind}]", "stored GB/s", "of limit"]
    return part if coded else [each for each in part if each != "stored GB/s"]


def _last(result: TargetResult, coded: bool) -> list[str]:
    if counted(result):
        return ["CPU µs/op"]
    return ["ratio", "CPU s/GiB"] if coded else ["CPU s/GiB"]


def _note(result: TargetResult, coded: bool) -> str:
    spreads = [p.seconds for cell in result.cells for p in cell.phases.values()]
    kind = kinds(spreads) if spreads else "range"
    if counted(result):
        units = " and ".join(dict.fromkeys(unit for c in result.cells for unit in c.ran.values()))
        return (
            f"{units}: operations per second, of all workers together. In brackets: {kind}. "
            "Percentiles are of one operation, from the middle repeat. CPU is user + system time "
            "of the process per operation."
        )
    codec = (
        "disk ceiling × ratio and codec speed × cores, both" if coded else "ceilings that apply,"
    )
    return (
        "GB/s = 10⁹ user bytes per second, from the median time. “Of limit” is the share of "
        f"the lower of {codec} measured in this run, and says which of them binds. In brackets: "
        f"{kind}. CPU is user + system time of the process, all phases, per GiB of state."
    )


def _levels(own: list[Factor], mine: dict[str, str]) -> list[Datum]:
    data = []
    for place, factor in enumerate(own):
        text = mine.get(factor.name, "–")
        number = amount(text) if factor.numeric else None
        data.append(Datum(text, number, css="name" if place == 0 else ""))
    return data


def _line(cell: Cell, parts: dict[str, bool], found: Ranking | None, coded: bool) -> list[Datum]:
    words = {"best": "◀ best", "tied": "tied"}.get(place(cell, found), "")
    if cell.failed:
        words = f"{words} {cell.failed} failed".strip()
    data = [Datum(words, css="mark"), Datum(str(cell.n), cell.n)]
    total = None if cell.blocked or not cell.total else cell.total.median
    data.append(quantity(total, seconds))
    for name, counts_ in parts.items():
        data += _phase(cell, name, coded, counts_)
    return data


def _costs(cell: Cell, result: TargetResult, coded: bool) -> list[Datum]:
    """The last columns: what a cell costs, per operation or per GiB."""
    if counted(result):
        each = cell.cpu_s_per_operation if cell.whole else None
        return [quantity(each or None, cpu)]
    ratio = [quantity(cell.ratio if cell.sized else None, two)] if coded else []
    per_gib = cell.cpu_s_per_gib if cell.sized and cell.whole else None
    return [*ratio, quantity(per_gib or None, two)]


def _phase(cell: Cell, name: str, coded: bool, of_counts: bool) -> list[Datum]:
    phase = cell.phases.get(name)
    width = 6 if of_counts else 5 if coded else 4
    if phase is None:
        return _why(cell, name, width) if name in cell.blocked else [MISSING] * width
    if phase.counted != of_counts:
        return _otherwise(cell, phase, width)
    if phase.counted:
        return _counted(cell, phase)
    css = "blocked" if name in cell.blocked else ""
    why = f"blocked by {cell.blocked[name]}" if css else ""
    share = phase.of_limit
    limit = f"{percent(share)} {binds(phase.limit)}".strip()
    low, full = phase.slowest, min(share, 1.0) if share and not css else None
    stored = [_known(gbs(phase.stored_rate), phase.stored_rate, "", css)] if coded else []
    data = [
        Datum(seconds(phase.seconds.median), phase.seconds.median, _trials(phase), css),
        # The same trials, but one tip is enough: of the two numbers the first carries it.
        _known(gbs(phase.user_rate), phase.user_rate, "", css),
        _known(range_of(phase), low, phase.seconds.kind, f"{css} quiet".strip()),
        *stored,
        Datum(limit, share, _limit(phase), css, full, missing=share is None),
    ]
    return [Datum(why, data[0].sort, css="why"), *data[1:]] if css else data


def _why(cell: Cell, name: str, width: int) -> list[Datum]:
    """The check in the place of numbers that it forbids."""
    first = Datum(f"blocked by {cell.blocked[name]}", css="why", missing=True)
    return [first, *[BLANK] * (width - 1)]


def _otherwise(cell: Cell, phase: PhaseStat, width: int) -> list[Datum]:
    """A phase under columns of another unit: its speed with its own, and nothing beside it."""
    if phase.name in cell.blocked:
        return _why(cell, phase.name, width)
    speed = counts(phase.speed) if phase.counted else gbs(phase.user_rate)
    first = Datum(f"{speed} {phase.unit}", None, _trials(phase), missing=True)
    return [first, *[MISSING] * (width - 1)]


def _counted(cell: Cell, phase: PhaseStat) -> list[Datum]:
    css = "blocked" if phase.name in cell.blocked else ""
    data = [
        _known(counts(phase.speed), phase.speed, _trials(phase), css),
        _known(range_of(phase), phase.slowest, phase.seconds.kind, f"{css} quiet".strip()),
    ]
    for name in ("p50", "p99", "p99_99"):
        ns = phase.latency_ns.get(name)
        data.append(replace(quantity(ns, span), css=css))
    data.append(_known(cpu(phase.cpu_s_per_operation), phase.cpu_s_per_operation, "", css))
    if not css:
        return data
    why = Datum(f"blocked by {cell.blocked[phase.name]}", data[0].sort, css="why")
    return [why, *data[1:]]


def _known(text: str, value: float, tip: str, css: str) -> Datum:
    """A number; nothing takes no time and moves no bytes, so zero stands for "not known"."""
    return Datum(text, value or None, tip, css, missing=not value)


def range_of(phase: PhaseStat) -> str:
    """Its interval (or range) in its unit; in seconds where neither bytes nor a count is known."""
    if phase.speeds:
        return f"[{number(phase, phase.slowest)} {number(phase, phase.fastest)}]"
    return f"[{seconds(phase.seconds.low)} {seconds(phase.seconds.high)}] s"


def _trials(phase: PhaseStat) -> str:
    work = phase.operations if phase.counted else phase.user_bytes
    return "\n".join(
        f"repeat {repeat + 1}: {seconds(s)} s"
        + (f", {number(phase, work / s)} {phase.unit}" if work else "")
        for repeat, s in phase.trials
    )


def _limit(phase: PhaseStat) -> str:
    if phase.limit is None:
        return "no ceiling was measured"
    return f"bound by {phase.limit.name}: {gbs(phase.limit.rate)} GB/s of user bytes"


def rows(analysis: Analysis) -> list[dict[str, Any]]:
    """The same in base units, for CSV and JSON."""
    found, levels, names = [], analysis.levels(), analysis.phases
    for result in analysis.results:
        cells, ranking = ranked(result)
        for cell in cells:
            row: dict[str, Any] = {
                "target": result.label,
                "setting": cell.setting,
                "codec": cell.codec,
                "streams": cell.streams,
                **{
                    k: v
                    for k, v in levels.get((cell.label, cell.setting), {}).items()
                    if k not in ("codec", "streams")
                },
                "n": cell.n,
                "failed": cell.failed,
                "place": place(cell, ranking),
                "total_s_median": cell.total.median if cell.total else None,
                "ratio": cell.ratio if cell.sized else None,
                "cpu_s_per_gib": cell.cpu_s_per_gib or None if cell.sized and cell.whole else None,
            }
            for name in names:
                row |= _base(name, cell)
            found.append(row)
    return found


def _base(name: str, cell: Cell) -> dict[str, Any]:
    phase = cell.phases.get(name)
    spread, limit = (phase.seconds, phase.limit) if phase else (None, None)
    values = {
        "s_median": spread and spread.median,
        "s_low": spread and spread.low,
        "s_high": spread and spread.high,
        "interval": spread and spread.kind,
        # Nothing moves no bytes: a zero stands for "not recorded".
        "user_bytes": phase and (phase.user_bytes or None),
        "stored_bytes": phase and (phase.stored_bytes or None),
        "user_bytes_per_s": phase and (phase.user_rate or None),
        "stored_bytes_per_s": phase and (phase.stored_rate or None),
        "cpu_s_per_gib": phase and (phase.cpu_s_per_gib or None),
        "operations": phase and (phase.operations or None),
        "operations_per_s": phase and (phase.operation_rate or None),
        "cpu_s_per_operation": phase and (phase.cpu_s_per_operation or None),
        **{f"latency_ns_{p}": phase and phase.latency_ns.get(p) for p in LATENCIES},
        "limit_bytes_per_s": limit and limit.rate,
        "limit": limit and limit.name,
        "of_limit": phase and phase.of_limit,
        "blocked_by": cell.blocked.get(name),
    }
    return {f"{name}_{key}": value for key, value in values.items()}
