"""The records of any runs as one table of a published, versioned shape."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import IO, Any

import polars as pl

from savemark import escape
from savemark.records import frame
from savemark.records.run import Json, Run

# Raised when a column changes its meaning; a new column does not raise it.
VERSION = 1
FORMATS = ("parquet", "csv", "json")
TYPES = {pl.Int64: "integer", pl.Float64: "number", pl.String: "string", pl.Boolean: "boolean"}
UNITS = {
    "_bytes_per_s": "bytes per second",
    "_ops_per_s": "operations per second",
    "_unix_ns": "nanoseconds since 1970",
    "_ns": "nanoseconds",
    "_bytes": "bytes",
    "_share": "share, 0 to 1",
    "_pages": "pages",
    "_count": "number",
}
MEANINGS = {
    "schema": f"version of this table's columns: {VERSION}",
    "run": "the run, as named on the command line, else its folder",
    "index": "number of the trial in its run",
    "position": "place in the order in which trials really ran, from 0",
    "role": "`trial`, or `ceiling` (what the machine can do at best)",
    "name": "workload of a trial, name of a ceiling",
    "label": "where it ran",
    "setting": "the combination of factors, in words",
    "repeat": "which repeat of its setting, from 0",
    "status": "`ok` or `failed`; a failed trial is one row without a phase",
    "phase": "part of the trial with a time of its own",
    "prepare_ns": "before the start barrier: memory made and touched, files and rings opened",
    "elapsed_ns": "from the start barrier until the result is complete",
    "thread_io_ns": "in I/O calls, summed over threads: never on one axis with wall time",
    "thread_sync_ns": "in fsync and the like, summed over threads; part of thread_io_ns",
    "user_bytes": "bytes before the codec",
    "stored_bytes": "bytes after the codec",
    "contract": "what is durable when the clock stops: none, each, end, group, rename, …",
    "blocked_by": "the check that forbids the times and rates of this row: they are not told",
    "time_base": "`wall`, or `threads` where times are sums over threads",
}


def table(runs: list[Run], rows: Callable[[Run], pl.DataFrame] = frame.phases) -> pl.DataFrame:
    """A row per phase of each trial of all runs, the version of the columns first.

    `rows` makes those of one run: all that is recorded, or what the checks let through.
    """
    frames = [rows(run) for run in runs]
    # Columns that only some runs have (factors, stages) are null in the others.
    whole = pl.concat(frames, how="diagonal")
    return whole.select(pl.lit(VERSION, pl.Int64).alias("schema"), pl.all())


def write(rows: pl.DataFrame, form: str, file: IO[bytes]) -> None:
    """Write the table in one of `FORMATS`; JSON is one object per row in a list."""
    if form == "parquet":
        rows.write_parquet(file)
    elif form == "csv":
        write_csv(rows, file)
    else:
        file.write(b"[\n")
        for place, row in enumerate(rows.iter_rows(named=True)):
            known = {name: value for name, value in row.items() if value is not None}
            line = json.dumps(known)
            file.write((",\n" if place else "").encode() + line.encode())
        file.write(b"\n]\n")


def write_csv(rows: pl.DataFrame, file: IO[bytes]) -> None:
    """Write the table as CSV; what a spreadsheet would compute is made a text (`escape.csv`)."""
    head = io.StringIO(newline="")
    csv.writer(head, lineterminator="\n").writerow(map(escape.csv, rows.columns))
    file.write(head.getvalue().encode())
    columns = [_texts(column) if column.dtype == pl.String else column for column in rows]
    pl.DataFrame(columns).write_csv(file, include_header=False)


def _texts(column: pl.Series) -> pl.Series:
    """The texts of a column for CSV; most are the same many times."""
    texts = ((text, escape.csv(text)) for text in column.unique().drop_nulls())
    changed = {text: new for text, new in texts if new != text}
    return column.replace(changed) if changed else column


def schema() -> Json:
    """JSON Schema (2020-12) of a row: every column the table always has, and what else may come."""
    columns: dict[str, Any] = {"schema": pl.Int64, **frame.HEAD, **frame.TAIL}
    columns["blocked_by"] = pl.String
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A row of `savemark export`, version {VERSION}",
        "description": "A phase of a trial. What is not known is absent (null in CSV and Parquet). "
        "Other columns are the factors of the study, as text, and stage_<name>_ns.",
        "type": "object",
        "properties": {name: _column(name, kind) for name, kind in columns.items()},
        "patternProperties": {
            "^stage_.+_ns$": {"type": "integer", "description": "a stage of the wall time, ns"}
        },
        "additionalProperties": {"type": "string", "description": "a factor's level"},
        "required": ["schema", "run", "index", "position", "role", "name", "label", "status"],
    }


def _column(name: str, kind: Any) -> Json:
    unit = next((words for end, words in UNITS.items() if name.endswith(end)), None)
    meaning = MEANINGS.get(name, name.replace("_", " "))
    if unit and unit not in meaning:
        meaning = f"{meaning} ({unit})"
    if name == "schema":
        return {"const": VERSION, "description": meaning}
    return {"type": TYPES[kind], "description": meaning}
