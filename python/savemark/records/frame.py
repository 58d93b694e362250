"""The records as one table: a row per phase of each trial, base units, the unit in the name."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from operator import is_, itemgetter
from typing import Any

import polars as pl

from savemark.records import evidence, timelines
from savemark.records.naming import given, setting, variant
from savemark.records.run import Entry, Json, Run

# Columns every frame has, in this order, whatever the run holds: a figure may rely on them.
HEAD = {
    "run": pl.String,
    "index": pl.Int64,
    "position": pl.Int64,
    "role": pl.String,
    "name": pl.String,
    "label": pl.String,
    "setting": pl.String,
    "repeat": pl.Int64,
    "status": pl.String,
    "codec": pl.String,
    "streams": pl.Int64,
    # What varies besides codec, streams and target, in words; "" where nothing does.
    "variant": pl.String,
    # The part of it that nobody chooses: what is saved.
    "given": pl.String,
    "phase": pl.String,
}
PHASE = [
    *("prepare_ns", "elapsed_ns", "first_done_ns", "last_done_ns", "first_done_bytes"),
    *("user_bytes", "stored_bytes", "cpu_user_ns", "cpu_system_ns"),
]
# Trials whose rows are turned into columns together.
ROWS_AT_ONCE = 1000
LATENCY = (
    *("count", "min_ns", "mean_ns", "p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "p99_99_ns"),
    "max_ns",
)
# Rows, and their columns; a column of one row stands for all rows of the part.
Part = tuple[int, dict[str, pl.Series]]
# Columns, and the fields of a part of a phase that they hold.
LATENCIES = {
    kind: [(f"{kind}_{name}", name) for name in LATENCY] for kind in ("latency", "sync_latency")
}
DEVICE = [(f"device_{name}", name) for name in ("name", "read_bytes", "written_bytes", "flushes")]
CACHE = [(f"cache_{n}", n) for n in ("state", "resident_pages", "total_pages", "method")]
TAIL = {
    "started_unix_ns": pl.Int64,
    "io_count": pl.Int64,
    "iterations": pl.Int64,
    **dict.fromkeys(PHASE, pl.Int64),
    # Of what writes: until the application goes on, until the bytes are safe, until all is done.
    **dict.fromkeys(("frozen_ns", "durable_ns", "drained_ns", "fetched_ns"), pl.Int64),
    # Of a solver: those of the saves that are safe then, each time that it saved.
    "durable_bytes": pl.Int64,
    "device_name": pl.String,
    "device_read_bytes": pl.Int64,
    "device_written_bytes": pl.Int64,
    "device_flushes": pl.Int64,
    "cache_state": pl.String,
    "cache_resident_pages": pl.Int64,
    "cache_total_pages": pl.Int64,
    "cache_method": pl.String,
    "cache_wanted": pl.String,
    "verified": pl.String,
    "durable": pl.Boolean,
    "storage_path": pl.String,
    "direct": pl.Boolean,
    "filesystem": pl.String,
    "buffer_bytes": pl.Int64,
    "thread_codec_ns": pl.Int64,
    "thread_digest_ns": pl.Int64,
    "thread_wait_ns": pl.Int64,
    "thread_compute_ns": pl.Int64,
    "thread_write_ns": pl.Int64,
    "thread_sync_ns": pl.Int64,
    **{column: pl.Int64 for columns in LATENCIES.values() for column, _ in columns},
    "error_kind": pl.String,
    "error_message": pl.String,
    **evidence.COLUMNS,
}


def phases(run: Run) -> pl.DataFrame:
    """One row per phase; a failed trial is one row with its error and no phase."""
    factors = sorted({name for entry in run.entries for name in entry.factors} - set(HEAD))
    schema: dict[str, Any] = dict(HEAD)
    # A factor may hold numbers, words or nothing, so its column is text; codec and streams are not.
    schema |= {name: pl.String for name in factors if name not in TAIL}
    schema |= TAIL
    if "phases" not in run.memory:
        with _no_collector():
            run.memory["phases"], run.memory["timelines"] = _both(run, schema)
    found: pl.DataFrame = run.memory["phases"]
    return found


def _both(run: Run, schema: dict[str, Any]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """This table and the timelines, each record parsed once.

    Part by part: rows of Python are many times as large as columns.
    """
    named = _Names(run)
    parts: list[Part] = []
    lines: list[pl.DataFrame] = []
    for start in range(0, len(run.entries), ROWS_AT_ONCE):
        rows: list[Json] = []
        moved: list[timelines.Line] = []
        for place, entry in enumerate(run.entries[start : start + ROWS_AT_ONCE], start):
            record = entry.record
            rows += _rows(run, named.of(entry), place, (entry, record))
            moved += timelines.rows_of(entry, record)
        parts.append(_columns(rows, schema))
        lines.append(timelines.table(moved))
    return _table(parts, schema), pl.concat([timelines.table([]), *lines])


@contextmanager
def _no_collector() -> Iterator[None]:
    """Without the cyclic collector, which looks at every new row again and again for nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _columns(rows: list[Json], schema: dict[str, Any]) -> Part:
    """Rows as columns: those of the schema, and of each stage that these rows have."""
    stages = dict.fromkeys(name for row in rows for name in row if name.startswith("stage_"))
    whole = schema | dict.fromkeys(stages, pl.Int64)
    # All names of a row in one call: a hundred columns of a hundred thousand rows are many calls.
    empty, pick = dict.fromkeys(whole), itemgetter(*whole)
    columns = zip(*(pick(empty | row) for row in rows), strict=True)
    pairs = zip(whole.items(), columns, strict=True) if rows else ()
    return len(rows), {name: _series(name, kind, values) for (name, kind), values in pairs}


def _series(name: str, kind: Any, values: tuple[Any, ...]) -> pl.Series:
    """One column, or its one value: most hold no other, or nothing."""
    first = values[0]
    same = sum(map(is_, values, repeat(first))) == len(values)
    return pl.Series(name, [first] if same else values, dtype=kind, strict=False)


def _table(parts: list[Part], schema: dict[str, Any]) -> pl.DataFrame:
    """The parts below each other; a value that is the same in all rows takes the room of one."""
    height = sum(rows for rows, _ in parts)
    stages = {name: pl.Int64 for _, columns in parts for name in columns if name not in schema}
    if not height:
        return pl.DataFrame(schema=schema)
    found = {
        name: _column([(rows, columns.get(name)) for rows, columns in parts if rows], name, kind)
        for name, kind in (schema | stages).items()
    }
    # Literals take the height of the table that they are added to.
    return pl.select(pl.repeat(None, height).alias("")).with_columns(**found).select(*found)


def _column(parts: list[tuple[int, pl.Series | None]], name: str, kind: Any) -> pl.Series | pl.Expr:
    """One column of the table: a literal, or the values of all parts."""
    nothing = pl.Series(name, [None], dtype=kind)
    known = [(rows, nothing if values is None else values) for rows, values in parts]
    first = known[0][1]
    if all(len(values) == 1 and values.equals(first, null_equal=True) for _, values in known):
        return pl.lit(first[0], dtype=kind).alias(name)
    return pl.concat(
        values if len(values) == rows else values.new_from_index(0, rows) for rows, values in known
    )


class _Names:
    """What settings are called; the same factors come again with each repeat."""

    def __init__(self, run: Run) -> None:
        self.run = {"run": run.folder.resolve().name}
        self._known: dict[str, Json] = {}

    def of(self, entry: Entry) -> Json:
        """The columns that tell what ran."""
        key = f"{entry.role} {entry.name} {entry.factors}"
        if key not in self._known:
            factors = entry.factors
            row = {name: None if v is None else str(v) for name, v in factors.items()}
            row["setting"] = setting(factors) if entry.role == "trial" else entry.name
            row |= {"variant": variant(factors), "given": given(factors)}
            self._known[key] = self.run | row
        return self._known[key]


def _rows(run: Run, named: Json, place: int, kept: tuple[Entry, Json | None]) -> list[Json]:
    entry, record = kept
    head = named | _head(run, place, entry, record)
    if not entry.ok or record is None:
        error = entry.error or {}
        return [{**head, "error_kind": error.get("kind"), "error_message": error.get("message")}]
    path = record.get("path") or {}
    head |= {
        "started_unix_ns": record.get("started_unix_ns"),
        "storage_path": path.get("storage"),
        "direct": path.get("direct"),
        "filesystem": path.get("filesystem"),
        "buffer_bytes": record.get("buffer_bytes"),
        "cache_wanted": (record.get("trial") or {}).get("cache"),
    }
    head |= evidence.of_record(record, run.version)
    phases = record.get("phases") or []
    return [head | _phase(phase) | evidence.of_phase(phase, record) for phase in phases]


def _head(run: Run, place: int, entry: Entry, record: Json | None) -> Json:
    trial = (record or {}).get("trial") or {}
    head: Json = {name: getattr(entry, name) for name in ("index", "role", "name", "label")}
    if entry.run:
        head["run"] = entry.run
    head |= {"position": place, "repeat": entry.repeat, "status": entry.status}
    for name in ("codec", "streams"):
        # Fixed in the study instead of varied: the column still says what ran.
        value = entry.factors.get(name, trial.get(name))
        if value is None and entry.role == "trial":
            value = run.option(name)
        head[name] = value
    return head


def _phase(phase: Json) -> Json:
    row: Json = {"phase": phase.get("name"), "io_count": phase.get("operations")}
    row |= {name: phase.get(name) for name in ("iterations", "durable_bytes")}
    row |= {name: phase.get(name) for name in (*PHASE, "verified", "durable")}
    row |= _promises(phase)
    device, cache = phase.get("device") or {}, phase.get("cache") or {}
    row |= {column: device.get(name) for column, name in DEVICE}
    row |= {column: cache.get(name) for column, name in CACHE}
    row |= {f"thread_{n}": v for n, v in (phase.get("thread_time") or {}).items()}
    for kind, columns in LATENCIES.items():
        latency = phase.get(kind) or {}
        row |= {column: latency.get(name) for column, name in columns}
    for stage in phase.get("stages") or []:
        name = f"stage_{stage['name']}_ns"
        row[name] = row.get(name, 0) + stage["elapsed_ns"]
    return row


def _written(phase: Json) -> Json:
    """A write whose flush was timed by itself: before that the application could go on."""
    flushed = [s["elapsed_ns"] for s in phase.get("stages") or [] if s["name"] == "flush"]
    if phase.get("name") != "write" or not flushed:
        return {}
    durable = phase["elapsed_ns"] if phase.get("durable") else None
    return {"frozen_ns": phase["elapsed_ns"] - sum(flushed), "durable_ns": durable}


def _promises(phase: Json) -> Json:
    """What a phase has reached by when; a record may state it, else it follows.

    The engine's save is synchronous: the application waits until the end, and nothing is left to
    do in the background. Whether the bytes are safe at the end is what `durable` says. A restore
    has fetched everything when what remains is checking and decoding, its stage `verify`.
    """
    elapsed = (
        phase.get("elapsed_ns") if phase.get("name") == "save" and "durable" in phase else None
    )
    implied = {"frozen_ns": elapsed, "drained_ns": elapsed}
    implied["durable_ns"] = elapsed if phase.get("durable") else None
    implied |= _written(phase)
    stages = {stage["name"]: stage["elapsed_ns"] for stage in phase.get("stages") or []}
    if phase.get("name") == "restore" and "verify" in stages:
        implied["fetched_ns"] = phase["elapsed_ns"] - stages["verify"]
    stated = {name: phase.get(name) for name in implied}
    return {name: implied[name] if value is None else value for name, value in stated.items()}
