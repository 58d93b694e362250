"""The study `gpu-read-grid`: its settings, and first, last and their difference by storage."""

from __future__ import annotations

import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.factors import Factor
from savemark.report.table import Datum, Line, Table
from savemark.stats import spread

STUDY = "gpu-read-grid"
MIB = 2.0**20
# Our factors -> what the original calls them.
NAMES = {"target": "Storage", "transfer": "Transfer", "gpus": "GPU IDs"}
NAMES |= {"transfer_size": "buffer size `-b`", "workers": "number of workers `-t`"}


def tables(analysis: Analysis) -> list[Table]:
    """The settings and the extremes of each storage; nothing for another study."""
    if analysis.run.study_name != STUDY:
        return []
    settings = [
        Line([Datum(NAMES.get(factor.name, factor.title)), Datum(_levels(factor))])
        for factor in analysis.factors
    ]
    found = [Table("gpu_settings", "Settings", ["settings", "values"], settings)]
    best = _best(analysis)
    return [*found, best] if best else found


def _levels(factor: Factor) -> str:
    return ", ".join(factor.shown(level) for level in factor.levels)


def _best(analysis: Analysis) -> Table | None:
    """Per storage and transfer, the setting with the highest rate until the last worker ended."""
    rows = analysis.measured("read") if "read" in analysis.phases else analysis.frame.clear()
    rows = rows.filter((pl.col("first_done_ns") > 0) & (pl.col("user_bytes") > 0))
    if rows.is_empty():
        return None
    names = [factor.name for factor in analysis.factors if factor.name in ("target", "transfer")]
    first = pl.col("first_done_bytes") / pl.col("first_done_ns") * 1e9 / MIB
    last = pl.col("user_bytes") / pl.col("elapsed_ns") * 1e9 / MIB
    rows = rows.with_columns(first=first, last=last, diff=(first - last).abs())
    cells = rows.group_by([*names, "setting"], maintain_order=True).agg("first", "last", "diff")
    lines = []
    groups = cells.group_by(names, maintain_order=True) if names else [(("",), cells)]
    for key, own in groups:
        top = max(own.to_dicts(), key=lambda row: spread(row["last"]).median)
        data = [Datum(" ".join(map(str, key)) or "–"), Datum(top["setting"])]
        for column in ("first", "last", "diff"):
            middle = spread(top[column])
            data.append(Datum(f"{middle.median:.0f}", middle.median, _tip(middle.samples)))
        data.append(Datum(f"{spread(top['last']).median * MIB / 1e6:.0f}", top["last"][0]))
        lines.append(Line([*data, Datum(str(len(top["last"])), len(top["last"]))]))
    heads = ["storage", "fastest setting", "first", "last", "diff", "last, MB/s", "n"]
    note = (
        "MiB/s (2²⁰ bytes per second), medians, as published. First: all bytes moved when the "
        "first worker ended / that time; last: all bytes / the time of the last; diff: "
        "|first − last| trial by trial. MB/s are 10⁶ bytes per second."
    )
    return Table("gpu_first_last", "First and last worker", heads, lines, note)


def _tip(samples: tuple[float, ...]) -> str:
    return "repeats " + " ".join(f"{sample:.0f}" for sample in samples)
