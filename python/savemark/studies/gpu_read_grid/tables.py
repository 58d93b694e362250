"""The studies `gpu-*-grid`: settings; first, last, their difference and CPU by storage."""

from __future__ import annotations

import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.document import Datum, Line, Table
from savemark.report.factors import Factor
from savemark.report.text import gbs
from savemark.stats import spread

STUDIES = ("gpu-read-grid", "gpu-write-grid", "gpu-random-grid")
MIB = 2.0**20
# Our factors -> what the original calls them.
NAMES = {"target": "Storage", "transfer": "Transfer", "gpus": "GPU IDs"}
NAMES |= {"transfer_size": "buffer size `-b`", "workers": "number of workers `-t`"}


def tables(analysis: Analysis) -> list[Table]:
    """The settings and the extremes of each storage; nothing for another study."""
    if analysis.run.study_name not in STUDIES:
        return []
    settings = [
        Line([Datum(NAMES.get(factor.name, factor.title)), Datum(_levels(factor))])
        for factor in analysis.factors
    ]
    found = [Table("gpu_settings", "Settings", ["settings", "values"], settings)]
    phase = next((name for name in ("read", "write") if name in analysis.phases), None)
    best = _best(analysis, phase) if phase else None
    return [*found, best] if best else found


def _levels(factor: Factor) -> str:
    return ", ".join(factor.shown(level) for level in factor.levels)


def _best(analysis: Analysis, phase: str) -> Table | None:
    """Per storage and transfer, the setting with the highest rate until the last worker ended."""
    rows = analysis.measured(phase)
    rows = rows.filter((pl.col("first_done_ns") > 0) & (pl.col("user_bytes") > 0))
    if rows.is_empty():
        return None
    names = [factor.name for factor in analysis.factors if factor.name in ("target", "transfer")]
    first = pl.col("first_done_bytes") / pl.col("first_done_ns") * 1e9 / MIB
    last = pl.col("user_bytes") / pl.col("elapsed_ns") * 1e9 / MIB
    cpu = (pl.col("cpu_user_ns") + pl.col("cpu_system_ns")) / pl.col("user_bytes")
    rows = rows.with_columns(first=first, last=last, diff=(first - last).abs(), cpu=cpu)
    cells = rows.group_by([*names, "setting"], maintain_order=True).agg(
        "first", "last", "diff", "cpu"
    )
    lines = []
    groups = cells.group_by(names, maintain_order=True) if names else [(("",), cells)]
    for key, own in groups:
        top = max(own.to_dicts(), key=lambda row: spread(row["last"]).median)
        data = [Datum(" ".join(map(str, key)) or "–"), Datum(top["setting"])]
        for column in ("first", "last", "diff"):
            middle = spread(top[column])
            data.append(Datum(f"{middle.median:.0f}", middle.median, _tip(middle.samples)))
        data.append(Datum(gbs(spread(top["last"]).median * MIB), top["last"][0]))
        data.append(_cpu(top["cpu"]))
        lines.append(Line([*data, Datum(str(len(top["last"])), len(top["last"]))]))
    heads = ["storage", "fastest setting", "first", "last", "diff", "last, GB/s", "CPU-s/GB", "n"]
    note = (
        "MiB/s (2²⁰ bytes per second), medians, as published. First: all bytes moved when the "
        "first worker ended / that time; last: all bytes / the time of the last; diff: "
        "|first − last| trial by trial. GB/s are 10⁹ bytes per second. CPU-s/GB: processor time of "
        "all workers for 10⁹ bytes, which is what GPUDirect Storage is to save."
    )
    return Table("gpu_first_last", "First and last worker", heads, lines, note, brief=True)


def _cpu(samples: list[float | None]) -> Datum:
    known = [sample for sample in samples if sample is not None]
    if not known:
        return Datum("–")
    middle = spread(known).median
    return Datum(f"{middle:.3g}", middle, "repeats " + " ".join(f"{s:.3g}" for s in known))


def _tip(samples: tuple[float, ...]) -> str:
    return "repeats " + " ".join(f"{sample:.0f}" for sample in samples)
