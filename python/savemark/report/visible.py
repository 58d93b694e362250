"""What may be shown of a run: the numbers that a check forbids are taken out once, here."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from savemark.stats import TargetResult

# Columns of records that tell no measured time although their unit is nanoseconds.
NO_TIME = ("started_unix_ns", "timer_resolution_ns")
KEYS = ("label", "setting", "phase")


def marked(frame: pl.DataFrame, results: Sequence[TargetResult]) -> pl.DataFrame:
    """The records and `blocked_by`, the check that forbids the numbers of a row."""
    marks = forbidden(results)
    trial = pl.col("role") == "trial"
    found = frame.join(marks, on=KEYS, how="left", maintain_order="left")
    return found.with_columns(blocked_by=pl.when(trial).then("blocked_by"))


def visible(frame: pl.DataFrame, results: Sequence[TargetResult]) -> pl.DataFrame:
    """As `marked`; a forbidden phase keeps its bytes, not its times and rates."""
    told = [
        name
        for name in frame.columns
        if name.endswith(("_ns", "_per_s")) and name not in NO_TIME and "limit_" not in name
    ]
    shown = pl.when(pl.col("blocked_by").is_null()).then(pl.col(told))
    return marked(frame, results).with_columns(shown)


def forbidden(results: Sequence[TargetResult]) -> pl.DataFrame:
    """The phases whose numbers a check forbids, each with its check in `blocked_by`."""
    found = [
        (result.label, cell.setting, phase, check)
        for result in results
        for cell in result.cells
        for phase, check in cell.blocked.items()
    ]
    return pl.DataFrame(found, schema=dict.fromkeys((*KEYS, "blocked_by"), pl.String), orient="row")
