"""Numbers that a check forbids: taken out of every rendering, unless they were asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from savemark.report import settings
from savemark.report.analysis import Analysis
from savemark.report.table import Datum, Table
from savemark.report.words import gbs, seconds

# How settings.py marks a number that a check forbids.
MARK = "blocked"
# Columns of records that tell no measured time although their unit is nanoseconds.
NO_TIME = ("started_unix_ns", "timer_resolution_ns")


def tables(analysis: Analysis) -> list[Table]:
    """The main tables; without `--show-blocked` a forbidden number is nowhere in them."""
    found = settings.tables(analysis)
    return found if analysis.show_blocked else [_without(table) for table in found]


def _without(table: Table) -> Table:
    lines = [replace(line, data=[_hidden(d) for d in line.data]) for line in table.lines]
    return replace(table, lines=lines)


def _hidden(datum: Datum) -> Datum:
    """The check's name stays, whatever would tell the number goes: text, order, tip, bar."""
    words = datum.css.split()
    if "why" in words:
        return replace(datum, sort=-1.0, tip="")
    return Datum("", -1.0, css=datum.css) if MARK in words else datum


def rows(analysis: Analysis) -> list[dict[str, Any]]:
    """The rows in base units; a forbidden phase keeps only the name of its check."""
    found = settings.rows(analysis)
    if analysis.show_blocked:
        return found
    names = [name for result in analysis.results for name in result.phases]
    for row in found:
        for name in names:
            if row.get(f"{name}_blocked_by"):
                kept = {f"{name}_blocked_by"}
                own = [key for key in row if key.startswith(f"{name}_") and key not in kept]
                row.update(dict.fromkeys([*own, "total_s_median"]))
    return found


def phases(analysis: Analysis) -> pl.DataFrame:
    """The records and `blocked_by`: a forbidden phase keeps its bytes, not its times and rates."""
    frame = analysis.frame
    found = [
        (result.label, cell.setting, phase, check)
        for result in analysis.results
        for cell in result.cells
        for phase, check in cell.blocked.items()
    ]
    names = ("label", "setting", "phase", "blocked_by")
    marks = pl.DataFrame(found, schema=dict.fromkeys(names, pl.String), orient="row")
    trial = pl.col("role") == "trial"
    marked = frame.join(marks, on=names[:3], how="left", maintain_order="left").with_columns(
        blocked_by=pl.when(trial).then("blocked_by")
    )
    if analysis.show_blocked:
        return marked
    told = [
        name
        for name in frame.columns
        if name.endswith(("_ns", "_per_s")) and name not in NO_TIME and "limit_" not in name
    ]
    return marked.with_columns(pl.when(pl.col("blocked_by").is_null()).then(pl.col(told)))


def listed(analysis: Analysis) -> list[str]:
    """Each forbidden number in a line, for a terminal; empty without `--show-blocked`."""
    if not analysis.show_blocked:
        return []
    return [
        f"{cell.blocked[name]} forbids: {name} of {cell.setting} on {cell.label}, "
        f"{seconds(phase.seconds.median)} s"
        + (f", {gbs(phase.user_rate)} GB/s" if phase.user_bytes else "")
        for result in analysis.results
        for cell in result.cells
        for name, phase in cell.phases.items()
        if name in cell.blocked
    ]
