"""Saves out of GPUs: for how long the application stood still, and when all was durable."""

from __future__ import annotations

import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.document import Datum, Line, Table
from savemark.report.text import gbs, seconds
from savemark.stats import median

NOTE = (
    "Medians. Stall: until everything was copied out of the GPUs' memory into pinned memory of the "
    "host; from then on the application may change its tensors. Durable: until the checkpoint is "
    "on stable storage. Copied: user bytes / stall."
)


def tables(analysis: Analysis) -> list[Table]:
    """Return the table of a run that saved states out of GPUs; nothing for another run."""
    rows = analysis.frame.filter(
        (pl.col("role") == "trial") & (pl.col("stall_ns") > 0) & (pl.col("user_bytes") > 0)
    )
    groups = rows.group_by("label", "setting", maintain_order=True)
    lines = [_line(str(label), str(setting), part) for (label, setting), part in groups]
    heads = ["target", "setting", "stall s", "durable s", "of it", "copied GB/s", "n"]
    title = "How long the application stands still"
    return [Table("stall", title, heads, lines, NOTE, brief=True)] if lines else []


def _line(label: str, setting: str, rows: pl.DataFrame) -> Line:
    stall, whole = (median(rows[name] / 1e9) for name in ("stall_ns", "elapsed_ns"))
    copied = median(rows["user_bytes"] / rows["stall_ns"]) * 1e9
    return Line([
        Datum(label),
        Datum(setting, tone="name"),
        Datum(seconds(stall), stall),
        Datum(seconds(whole), whole),
        Datum(f"{stall / whole:.0%}", stall / whole),
        Datum(gbs(copied), copied),
        Datum(str(len(rows)), len(rows)),
    ])  # fmt: skip
