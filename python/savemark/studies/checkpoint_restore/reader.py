"""CSVs of the checkpoint/restore study bsach64/streamer-bench.

Columns compression, streams, checkpoint_time, restore_time, total_time, timestamp, run_number;
times are seconds of `time -p`. Storage, process and memory limit are only in the file's name:
`5_runs_s3_gpu.csv`, `local_cuda_stress_100MB.csv`.
"""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from savemark import limits
from savemark.errors import usage
from savemark.importing.rows import Row, names, nanoseconds
from savemark.records.imported import Imported
from savemark.records.run import Json
from savemark.tools.source import Source

NAME = "streamer-bench"
WHAT = "CSVs of streamer-bench (compression,streams,checkpoint_time,restore_time,…)"
NEEDED = ("compression", "streams", "checkpoint_time", "restore_time")
STORAGES = ("s3", "cedana", "local", "gcs", "ebs", "nfs")
# The names of the two programs whose state is saved, and of where that state is.
PROCESSES = {"gpu": "gpu", "cpu": "cpu", "cuda": "gpu", "py": "cpu"}
# run_benchmarks.sh runs each of these with each of those: a cell that is not there timed out.
CODECS = ("none", "tar", "lz4", "gzip", "zlib")
STREAMS = (0, 2, 4, 8)
# Every run up to the highest number is wanted in every cell: a number that is damaged wants no end.
MOST_RUNS = 10_000


def recognises(source: Source) -> bool:
    """Whether a line among the first hundred is the header."""
    return any(_columns(line) for line in source.lines[:100])


def parse(source: Source) -> Imported:
    """Return a trial per row; a row whose time is empty is a failed trial, never a zero."""
    path, lines = source.path, source.lines
    first = next(n for n, line in enumerate(lines) if _columns(line))
    columns = _columns(lines[first])
    fixed = _from_name(path)
    entries: list[Json] = []
    junk, seen = [], dict[tuple[str, int], int]()
    for number, line in enumerate(lines[first + 1 :], start=first + 2):
        if "," not in line or _columns(line):
            junk += [number] if line.strip() else []
            continue
        row = _Row.of(path, number, line, columns)
        cell = row.codec, row.streams
        seen[cell] = seen.get(cell, 0) + 1
        source.limit(len(entries) + 1, limits.MOST_IMPORTED, "trials")
        entries.append(row.entry(fixed, seen[cell] - 1))
    if not entries:
        raise usage(f"{path}: no row after the header")
    return Imported(
        label=_storage(path) or path.stem,
        entries=entries,
        levels={
            "codec": list(dict.fromkeys([*CODECS, *(e["factors"]["codec"] for e in entries)])),
            "streams": sorted({*STREAMS, *(e["factors"]["streams"] for e in entries)}),
        },
        repeats=max(entry["repeat"] for entry in entries) + 1,
        study="checkpoint-restore",
        # The script sends the answer of `cedana --version` to the terminal: no file has it.
        tools={"cedana": None},
        notes=[f"passed over {len(junk)} lines that are no rows"] if junk else [],
    )


def _columns(line: str) -> tuple[str, ...]:
    """Return the names of the columns if the line is a header, else nothing."""
    columns = names(line)
    return columns if all(name in columns for name in NEEDED) else ()


def _words(path: Path) -> list[str]:
    return re.split(r"[^a-z0-9]+", path.stem.lower())


def _storage(path: Path) -> str | None:
    return next((word for word in _words(path) if word in STORAGES), None)


def _from_name(path: Path) -> Json:
    """Return the factors that only the name of the file tells."""
    words = _words(path)
    process = next((PROCESSES[word] for word in words if word in PROCESSES), None)
    limit = next((word for word in words if re.fullmatch(r"\d+mb", word)), None)
    factors = {"process": process, "memory_limit": limit and limit.upper()}
    return {name: level for name, level in factors.items() if level is not None}


class _Row(Row):
    """One run of the script."""

    @property
    def codec(self) -> str:
        return self.values["compression"].lower() or self.fail("compression is empty")

    @property
    def streams(self) -> int:
        return self.whole("streams")

    def measured(self, column: str) -> Decimal | None:
        """Return a time; None where the field is empty."""
        text = self.values.get(column, "").lower()
        return None if text in ("", "nan", "n/a", "timeout") else self.seconds(column)

    def entry(self, fixed: Json, before: int) -> Json:
        """Return the trial; `before` rows of the same cell came before it."""
        repeat = self.whole("run_number") - 1 if self.values.get("run_number") else before
        if not 0 <= repeat < MOST_RUNS:
            self.fail(f"run_number: runs count from 1, and not to {repeat + 1}")
        head = {"role": "trial", "name": "checkpoint", "repeat": repeat}
        head["factors"] = {"codec": self.codec, "streams": self.streams, **fixed}
        save, restore = self.measured("checkpoint_time"), self.measured("restore_time")
        if save is None or restore is None:
            lost = "checkpoint_time" if save is None else "restore_time"
            message = f"{self.path.name}:{self.number}: {lost} is empty"
            return {**head, "error": {"kind": "failed", "message": message, "hint": None}}
        self.check_total(save + restore)
        return {**head, "record": self.record(save, restore)}

    def check_total(self, total: Decimal) -> None:
        stated = self.measured("total_time")
        if stated is not None and abs(stated - total) > Decimal("0.02"):
            self.fail(f"total_time is {stated}, but checkpoint and restore add up to {total}")

    def record(self, save: Decimal, restore: Decimal) -> Json:
        return {
            "trial": {"workload": "checkpoint"},
            "source": {
                "tool": "cedana",
                "timer_resolution_ns": max(_resolution_ns(save), _resolution_ns(restore)),
            },
            "finished_unix_ns": self.finished_unix_ns(),
            # Nothing says what was promised when the command ended.
            "phases": [_phase("save", save) | {"contract": "unknown"}, _phase("restore", restore)],
        }

    def finished_unix_ns(self) -> int | None:
        """Return when the row was written, at the end of its trial."""
        text = self.values.get("timestamp")
        if not text:
            return None
        try:
            return int(datetime.fromisoformat(text).timestamp()) * 1_000_000_000
        except (ValueError, OverflowError):
            self.fail(f"timestamp: `{text}` is not a date")


def _phase(name: str, seconds: Decimal) -> dict[str, Any]:
    """Return a phase with what is known of it: `time -p` says real time."""
    return {"name": name, "elapsed_ns": nanoseconds(seconds), "time_base": "wall"}


def _resolution_ns(seconds: Decimal) -> int:
    """Return the last digit that is written: `time -p` knows hundredths."""
    exponent = seconds.as_tuple().exponent
    return nanoseconds(Decimal(1).scaleb(int(exponent)))
