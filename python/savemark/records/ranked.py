"""What each rank did in each phase, of trials that several ranks ran together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from savemark.records.naming import setting
from savemark.records.record import Record
from savemark.records.run import Entry, Run

SCHEMA = {
    "index": pl.Int64,
    "label": pl.String,
    "setting": pl.String,
    "phase": pl.String,
    "rank": pl.Int64,
    "node": pl.String,
    "last_done_ns": pl.Int64,
    "user_bytes": pl.Int64,
    "operations": pl.Int64,
    # How many ranks the trial had: of many, only the slowest have a row.
    "of": pl.Int64,
}


def ranks(run: Run) -> pl.DataFrame:
    """One row per rank of each phase of each finished trial; none where ranks were alone.

    `slow` is the rank's time over that of the median rank of the same trial and phase.
    """
    if "ranks" not in run.memory:
        rows = [row for entry in run.entries if entry.role == "trial" for row in _rows(entry)]
        columns = dict(zip(SCHEMA, zip(*rows, strict=True), strict=True)) if rows else {}
        middle = pl.col("last_done_ns").median().over("index", "phase")
        found = pl.DataFrame(columns, schema=SCHEMA)
        run.memory["ranks"] = found.with_columns(slow=pl.col("last_done_ns") / middle)
    kept: pl.DataFrame = run.memory["ranks"]
    return kept


def _rows(entry: Entry) -> Iterator[tuple[Any, ...]]:
    record = entry.record or Record()
    names = record.nodes
    head = (entry.index, entry.label, setting(entry.factors))
    for phase in record.phases:
        lines = phase.ranks
        if lines is None or lines.of < 2 or phase.name == "prepare":
            continue
        numbers = lines.rank or range(len(lines.node))
        columns = (lines.last_done_ns, lines.user_bytes, lines.operations)
        places = (names[node] if node < len(names) else None for node in lines.node)
        for line in zip(numbers, places, *columns, strict=True):
            yield (*head, phase.name, *line, lines.of)
