"""The study `mounts`: bandwidth and IOPS of several paths, as published and as they are safe."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.document import MISSING, Datum, Line, Table, quantity
from savemark.report.text import cpu, gbs, span
from savemark.stats import Cell, PhaseStat, Spread, spread

STUDY = "mounts"
# The parts in the original's order, and their phase.
ROWS = {"sequential read": "read", "sequential write": "write"}
MB, MIB = 1e6, 2.0**20


def tables(analysis: Analysis) -> list[Table]:
    """Bandwidth and IOPS, legacy and corrected; nothing for another study."""
    if analysis.run.study_name != STUDY:
        return []
    found = {
        (part, result.label): stat
        for result in analysis.results
        for part, cells in analysis.apart(result).items()
        for cell in cells.cells
        if (stat := _stat(cell, part))
    }
    if not found:
        return []
    return [_legacy(analysis, "bandwidth"), _legacy(analysis, "iops"), _corrected(analysis, found)]


def _stat(cell: Cell, part: str) -> PhaseStat | None:
    phase = ROWS.get(part, "")
    return None if phase in cell.blocked else cell.phases.get(phase)


def application(analysis: Analysis, label: str, part: str) -> list[dict[str, Any]]:
    """Per repeat: bytes, operations, and the seconds until the application went on.

    A write is there for the application when its last call has returned; what the flush takes
    after that is not in fio's bandwidth without `end_fsync`.
    """
    phase = ROWS.get(part, "")
    rows = analysis.rows(label, phase).filter((pl.col("part") == part) & (pl.col("elapsed_ns") > 0))
    until = pl.coalesce("frozen_ns", "elapsed_ns")
    columns = rows.with_columns(until.alias("until_ns")).sort("repeat")
    return columns.select("user_bytes", "io_count", "until_ns", "elapsed_ns", "durable").to_dicts()


def _per_s(rows: list[dict[str, Any]], amount: str, time: str) -> list[float]:
    return [float(row[amount]) / row[time] * 1e9 for row in rows if row[amount] and row[time]]


def _legacy(analysis: Analysis, what: str) -> Table:
    amount, size = ("user_bytes", MB) if what == "bandwidth" else ("io_count", 1.0)
    lines = []
    for part in ROWS:
        data = [Datum(part.title())]
        for result in analysis.results:
            speeds = _per_s(application(analysis, result.label, part), amount, "until_ns")
            mean = fmean(speeds) / size if speeds else 0.0
            data.append(Datum(f"{mean:.0f}" if speeds else "–", mean))
        lines.append(Line(data))
    heads = ["", *(result.label for result in analysis.results)]
    title = "Disk bandwidth (MB/s), legacy" if what == "bandwidth" else "Disk IOPS, legacy"
    note = (
        "As published: what the application sees, without the flush; here the mean of all repeats, "
        "there one run."
    )
    return Table(f"legacy_{what}", title, heads, lines, note)


def _corrected(analysis: Analysis, found: dict[tuple[str, str], PhaseStat]) -> Table:
    lines = []
    for part in ROWS:
        for result in analysis.results:
            if stat := found.get((part, result.label)):
                lines.append(_line(analysis, part, result.label, stat))
    heads = ["", "path", "GB/s", "[low high]", "MiB/s", "safe GB/s", "[low high]", "IOPS"]
    heads += ["p50", "p99", "p99.99", "CPU µs/op", "n"]
    groups = [("", 2), ("for the application", 3), ("until it is safe", 3), ("", 5)]
    note = (
        "GB are 10⁹ bytes, MiB 2²⁰. A write is there for the application when its last call has "
        "returned, and safe when the flush after it has. A read is cold: the page cache was "
        "dropped, and looked at, before it. A dash under “safe”: this storage does not say."
    )
    return Table("mounts", "Bandwidth and IOPS, corrected", heads, lines, note, groups, brief=True)


def _line(analysis: Analysis, part: str, label: str, stat: PhaseStat) -> Line:
    rows = application(analysis, label, part)
    seen = spread(_per_s(rows, "user_bytes", "until_ns"))
    safe: Spread | None = None
    if ROWS[part] == "write" and all(row["durable"] for row in rows):
        safe = spread(_per_s(rows, "user_bytes", "elapsed_ns"))
    latencies = [stat.latency_ns.get(name) for name in ("p50", "p99", "p99_99")]
    return Line([
        Datum(part.title(), tone="name"),
        Datum(label),
        *_rate(seen),
        Datum(f"{seen.median / MIB:.0f}", seen.median),
        *(_rate(safe) if safe else [MISSING, Datum("")]),
        Datum(f"{stat.operation_rate:.0f}", stat.operation_rate),
        *(quantity(ns, span) for ns in latencies),
        Datum(cpu(stat.cpu_s_per_operation), stat.cpu_s_per_operation),
        Datum(str(len(rows)), len(rows)),
    ])  # fmt: skip


def _rate(found: Spread) -> list[Datum]:
    return [
        Datum(gbs(found.median), found.median),
        Datum(f"[{gbs(found.low)} {gbs(found.high)}]", found.low, found.kind, "quiet"),
    ]
