"""`timeline.parquet`: bytes completed per interval, of every phase of every finished trial."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from savemark import files
from savemark.records.record import Record
from savemark.records.run import Entry, Run, read_run

SCHEMA = {
    "index": pl.Int64,
    "role": pl.String,
    "name": pl.String,
    "label": pl.String,
    "repeat": pl.Int64,
    "phase": pl.String,
    "start_ns": pl.Int64,
    "interval_ns": pl.Int64,
    "bytes": pl.Int64,
}

# The values of `SCHEMA` for one phase; `start_ns` and `bytes` are lists.
Line = tuple[Any, ...]


def timelines(run: Run) -> pl.DataFrame:
    """One row per interval; `start_ns` counts from the start barrier of the phase."""
    if "timelines" not in run.memory:
        rows = [row for entry in run.entries for row in rows_of(entry, entry.record)]
        run.memory["timelines"] = table(rows)
    found: pl.DataFrame = run.memory["timelines"]
    return found


def rows_of(entry: Entry, record: Record | None) -> Iterator[Line]:
    """Yield a row per phase that has a timeline, its intervals as lists."""
    head = (entry.index, entry.role, entry.name, entry.label, entry.repeat)
    for phase in record.phases if record else ():
        line = phase.timeline
        if line and line.interval_ns and line.bytes:
            starts = [place * line.interval_ns for place in range(len(line.bytes))]
            yield (*head, phase.name, starts, line.interval_ns, line.bytes)


def table(rows: list[Line]) -> pl.DataFrame:
    """Return such rows with a line per interval."""
    lists: dict[str, Any] = {**SCHEMA, "start_ns": pl.List(pl.Int64), "bytes": pl.List(pl.Int64)}
    columns = dict(zip(lists, zip(*rows, strict=True), strict=True)) if rows else {}
    return pl.DataFrame(columns, schema=lists).explode("start_ns", "bytes")


def write_timelines(source: Path | Run) -> Path:
    """Writes `timeline.parquet` from the records; called when a run ends, or to rebuild it."""
    run = read_run(source) if isinstance(source, Path) else source
    path = run.folder / "timeline.parquet"
    with files.replacing(path) as file:
        timelines(run).write_parquet(file)
    return path
