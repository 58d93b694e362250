"""`timeline.parquet`: bytes completed per interval, of every phase of every finished trial."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from savemark.records.run import Run, read_run

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


def timelines(run: Run) -> pl.DataFrame:
    """One row per interval; `start_ns` counts from the start barrier of the phase."""
    rows = []
    for entry in run.entries:
        head = (entry.index, entry.role, entry.name, entry.label, entry.repeat)
        for phase in entry.phases:
            line = phase.get("timeline") or {}
            step = int(line.get("interval_ns") or 0)
            for place, count in enumerate(line.get("bytes") or [] if step else []):
                rows.append((*head, phase.get("name"), place * step, step, count))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def write_timelines(source: Path | Run) -> Path:
    """Writes `timeline.parquet` from the records; called when a run ends, or to rebuild it."""
    run = read_run(source) if isinstance(source, Path) else source
    path = run.folder / "timeline.parquet"
    part = path.with_suffix(".parquet.part")
    timelines(run).write_parquet(part)
    part.replace(path)  # whole or not at all
    return path
