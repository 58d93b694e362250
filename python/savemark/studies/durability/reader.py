"""CSVs of the fsync study jwuensche/parallel-storage-systems (task 3), one per version.

Columns threads,iterations,wallclock,io_time,fsync_time,io_bytes,iop. A row is one run of a program
that computes on a matrix and writes it over itself in place, each iteration; `wallclock` covers
both. io_time and fsync_time are seconds summed over the threads, and io_time holds fsync_time (in
the optimised version also the waiting for the thread that syncs). The version is the file's name.
"""

from __future__ import annotations

from savemark import limits
from savemark.errors import usage
from savemark.importing.rows import Row, names, nanoseconds
from savemark.records.imported import Imported
from savemark.records.run import Json
from savemark.tools.source import Source

NAME = "checkpoint-exercise"
WHAT = "CSVs of the fsync study (threads,iterations,wallclock,io_time,fsync_time,io_bytes,iop)"
COLUMNS = ("threads", "iterations", "wallclock", "io_time", "fsync_time", "io_bytes", "iop")
# What the source of each version does after a write. All of them write in place, without a
# temporary file and a rename, so that a crash in mid-write tears the only checkpoint.
CONTRACTS = {"checkpoint": "none", "checkpoint_fsync": "each", "checkpoint_optimized": "group"}
TOOL = {"name": "checkpoint-exercise", "version": None, "command": None}


def recognises(source: Source) -> bool:
    """Whether the first line is the header."""
    lines = source.lines
    return bool(lines) and names(lines[0]) == COLUMNS


def parse(source: Source) -> Imported:
    """Return a trial per row; the same number of threads again is its next repeat."""
    path = source.path
    entries: list[Json] = []
    seen: dict[int, int] = {}
    for number, line in enumerate(source.lines[1:], start=2):
        if not line.strip():
            continue
        row = _Row.of(path, number, line, COLUMNS)
        threads = row.whole("threads")
        seen[threads] = seen.get(threads, 0) + 1
        source.limit(len(entries) + 1, limits.MOST_IMPORTED, "trials")
        entries.append(row.entry(threads, seen[threads] - 1))
    if not entries:
        raise usage(f"{path}: no row after the header")
    return Imported(
        label="disk",  # no file says which
        entries=entries,
        repeats=max(seen.values()),
        study="durability",
        tools={"checkpoint-exercise": None},
    )


class _Row(Row):
    """One run of the program."""

    def entry(self, threads: int, repeat: int) -> Json:
        """Return the trial; `io_time` that is less than the fsync in it is damage."""
        if self.seconds("fsync_time") > self.seconds("io_time"):
            self.fail("fsync_time is more than the io_time that holds it")
        version = self.path.stem
        return {
            "role": "trial",
            "name": "iterate",
            "repeat": repeat,
            "factors": {"version": version, "workers": threads},
            "record": {
                "trial": {"workload": "iterate"},
                "tool": TOOL,
                "timer_resolution_ns": 1000,
                "phases": [self.phase(version, threads)],
            },
        }

    def phase(self, version: str, threads: int) -> Json:
        io, sync = self.seconds("io_time"), self.seconds("fsync_time")
        moved = self.whole("io_bytes")
        return {
            "name": "iterate",
            "elapsed_ns": nanoseconds(self.seconds("wallclock")),
            "iterations": self.whole("iterations"),
            "operations": self.whole("iop"),
            "user_bytes": moved,
            "stored_bytes": moved,
            "thread_io_ns": nanoseconds(io),
            "thread_time": {"sync_ns": nanoseconds(sync)},
            "worker_count": threads,
            "time_base": "wall",
            "contract": CONTRACTS.get(version, "unknown"),
            "atomic": False,
        }
