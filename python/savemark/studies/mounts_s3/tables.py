"""Mounted buckets: when the application went on, when the bytes were there, what a mount can do."""

from __future__ import annotations

import polars as pl

from savemark.records import Run
from savemark.report.analysis import Analysis
from savemark.report.document import Datum, Line, Table
from savemark.report.text import gbs, seconds
from savemark.stats import median

SAFE = "In the bucket: every file is an object of the right size and SHA-256, looked at there."
POSIX = "Tried once in the mounted directory, each result read back."


def tables(analysis: Analysis) -> list[Table]:
    """Return the tables that a run on mounts has; none for another run."""
    found = (_durable(analysis), _posix(analysis.run))
    return [table for table in found if table is not None]


def _durable(analysis: Analysis) -> Table | None:
    """Return both times of everything that was written through a mount."""
    known = pl.col("durable_ns").is_not_null() & pl.col("label").is_in(_mounted(analysis.run))
    rows = analysis.frame.filter((pl.col("role") == "trial") & known)
    groups = rows.group_by("label", "setting", "phase", maintain_order=True)
    lines = [_line(str(label), str(setting), str(phase), part)
             for (label, setting, phase), part in groups]  # fmt: skip
    heads = ["target", "setting", "phase", "application s", "GB/s", "in the bucket s", "GB/s", "×"]
    title = "Until it is in the bucket"
    return Table("in_bucket", title, heads, lines, SAFE, section="machine") if lines else None


def _line(label: str, setting: str, phase: str, rows: pl.DataFrame) -> Line:
    size = float(median(rows["user_bytes"]))
    until = [median(rows[name] / 1e9) for name in ("elapsed_ns", "durable_ns")]
    data = [Datum(label), Datum(setting), Datum(phase)]
    for each in until:
        data += [Datum(seconds(each), each), Datum(gbs(size / each), size / each)]
    return Line([*data, Datum(f"{until[1] / until[0]:.1f}", until[1] / until[0])])


def _posix(run: Run) -> Table | None:
    probed = {target.label: target.facts.get("posix") for target in run.targets}
    known = {label: found for label, found in probed.items() if found}
    if not known:
        return None
    names = list(dict.fromkeys(name for found in known.values() for name in found))
    lines = [
        Line([Datum(name), *(Datum(found.get(name, "")) for found in known.values())])
        for name in names
    ]
    title = "What these mounts can do"
    return Table("posix", title, ["call", *known], lines, POSIX, section="machine")


def _mounted(run: Run) -> list[str]:
    return [target.label for target in run.targets if target.facts.get("posix")]
