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
from savemark.records.columns import KINDS, Columns, Row
from savemark.records.naming import LEADING, given, setting, variant
from savemark.records.phase import Cache, Device, Latency, Phase, ThreadTime
from savemark.records.record import Error, Record
from savemark.records.run import Entry, Run

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
    **{name: KINDS[leading.kind] for name, leading in LEADING.items()},
    # What varies besides those and the target, in words; "" where nothing does.
    "variant": pl.String,
    # The part of it that nobody chooses: what is saved.
    "given": pl.String,
    "phase": pl.String,
}
TIMED = Columns.of(
    Phase,
    *("prepare_ns", "elapsed_ns", "first_done_ns", "last_done_ns", "first_done_bytes"),
    *("user_bytes", "stored_bytes", "cpu_user_ns", "cpu_system_ns"),
)
# Of what writes: until the application goes on, until the bytes are safe, until all is done; of
# what reads, until all bytes are here.
REACHED = Columns.of(Phase, "frozen_ns", "durable_ns", "drained_ns", "fetched_ns")
# Trials whose rows are turned into columns together.
ROWS_AT_ONCE = 1000
# Rows, and their columns; a column of one row stands for all rows of the part.
Part = tuple[int, dict[str, pl.Series]]
# By the part of a phase that they are of.
DEVICE = Columns.of(Device, "name", "read_bytes", "written_bytes", "flushes", prefix="device_")
CACHE = Columns.of(Cache, prefix="cache_")
THREADS = Columns.of(ThreadTime, prefix="thread_")
LATENCY, SYNC = (Columns.of(Latency, prefix=f"{kind}_") for kind in ("latency", "sync_latency"))
PARTS = {
    "device": DEVICE,
    "cache": CACHE,
    "thread_time": THREADS,
    "latency": LATENCY,
    "sync_latency": SYNC,
}
TAIL = {
    "started_unix_ns": pl.Int64,
    "io_count": pl.Int64,
    "iterations": pl.Int64,
    **TIMED.kinds,
    **REACHED.kinds,
    # Of a solver: those of the saves that are safe then, each time that it saved.
    "durable_bytes": pl.Int64,
    **DEVICE.kinds,
    **CACHE.kinds,
    "cache_wanted": pl.String,
    "verified": pl.String,
    "durable": pl.Boolean,
    "storage_path": pl.String,
    "direct": pl.Boolean,
    "filesystem": pl.String,
    "buffer_bytes": pl.Int64,
    **THREADS.kinds,
    **LATENCY.kinds,
    **SYNC.kinds,
    "error_kind": pl.String,
    "error_message": pl.String,
    **evidence.COLUMNS,
}


def phases(run: Run) -> pl.DataFrame:
    """One row per phase; a failed trial is one row with its error and no phase."""
    factors = sorted({name for entry in run.entries for name in entry.factors} - set(HEAD))
    schema: dict[str, Any] = dict(HEAD)
    # A factor may hold numbers, words or nothing, so its column is text; the leading ones' is not.
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
        rows: list[Row] = []
        moved: list[timelines.Line] = []
        for place, entry in enumerate(run.entries[start : start + ROWS_AT_ONCE], start):
            record = entry.record
            rows += _rows(run, named.of(entry), place, entry, record)
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


def _columns(rows: list[Row], schema: dict[str, Any]) -> Part:
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
        self._known: dict[str, Row] = {}

    def of(self, entry: Entry) -> Row:
        """The columns that tell what ran."""
        key = f"{entry.role} {entry.name} {entry.factors}"
        if key not in self._known:
            factors = entry.factors
            row = {name: None if v is None else str(v) for name, v in factors.items()}
            row["setting"] = setting(factors) if entry.role == "trial" else entry.name
            row |= {"variant": variant(factors), "given": given(factors)}
            self._known[key] = self.run | row
        return self._known[key]


def _rows(run: Run, named: Row, place: int, entry: Entry, record: Record | None) -> list[Row]:
    head = named | _head(run, place, entry, record)
    if not entry.ok or record is None:
        error = entry.error or Error()
        return [head | {"error_kind": error.kind, "error_message": error.message}]
    head |= {
        "started_unix_ns": record.started_unix_ns,
        "storage_path": record.path.storage,
        "direct": record.path.direct,
        "filesystem": record.path.filesystem,
        "buffer_bytes": record.buffer_bytes,
        "cache_wanted": record.trial.get("cache"),
    }
    head |= evidence.of_record(record, run.version)
    return [head | _phase(phase) | evidence.of_phase(phase, record) for phase in record.phases]


def _head(run: Run, place: int, entry: Entry, record: Record | None) -> Row:
    trial = record.trial if record else {}
    head: Row = {name: getattr(entry, name) for name in ("index", "role", "name", "label")}
    if entry.run:
        head["run"] = entry.run
    head |= {"position": place, "repeat": entry.repeat, "status": entry.status}
    for name in LEADING:
        # Fixed in the study instead of varied: the column still says what ran.
        value = entry.factors.get(name, trial.get(name))
        if value is None and entry.role == "trial":
            value = run.option(name)
        head[name] = value
    return head


def _phase(phase: Phase) -> Row:
    row: Row = {
        "phase": phase.name,
        "io_count": phase.operations,
        "iterations": phase.iterations,
        "durable_bytes": phase.durable_bytes,
        "verified": phase.verified,
        "durable": phase.durable,
        **TIMED.row(phase),
        **_promises(phase),
    }
    for name, columns in PARTS.items():
        if (part := getattr(phase, name)) is not None:
            row |= columns.row(part)
    for stage in phase.stages:
        name = f"stage_{stage.name}_ns"
        row[name] = row.get(name, 0) + stage.elapsed_ns
    return row


def _promises(phase: Phase) -> Row:
    """What a phase has reached by when; a record may state it, else it follows.

    The engine's save is synchronous: the application waits until the end, and nothing is left to
    do in the background. Whether the bytes are safe at the end is what `durable` says. A restore
    has fetched everything when what remains is checking and decoding, its stage `verify`.
    """
    stages = {stage.name: stage.elapsed_ns for stage in phase.stages}
    implied: Row = {}
    if phase.elapsed_ns is not None:
        if phase.name == "save" and phase.durable is not None:
            implied = {"frozen_ns": phase.elapsed_ns, "drained_ns": phase.elapsed_ns}
        elif phase.name == "write" and "flush" in stages:
            # Its flush was timed by itself: before that the application could go on.
            flushed = sum(stage.elapsed_ns for stage in phase.stages if stage.name == "flush")
            implied = {"frozen_ns": phase.elapsed_ns - flushed}
        if implied and phase.durable:
            implied["durable_ns"] = phase.elapsed_ns
        if phase.name == "restore" and "verify" in stages:
            implied["fetched_ns"] = phase.elapsed_ns - stages["verify"]
    stated = REACHED.row(phase).items()
    return implied | {name: value for name, value in stated if value is not None}
