"""The fsync study: what its figures show, with the original's definitions.

The same numbers come from imported files and from live trials: a phase `iterate` with iterations,
and I/O and sync time summed over the threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.factors import Factor, amount

# Which factor tells the versions of the program apart, and which one its threads.
VERSIONS = ("version", "sync", "policy")
THREADS = ("workers", "threads")
NEEDS = ("iterations", "thread_io_ns", "thread_sync_ns", "elapsed_ns", "user_bytes", "io_count")
WRONG = (
    "What is wrong with these figures: the versions promise different things (HC-12), seconds "
    "summed over threads stand beside seconds of a clock (HC-16), absolute times of unlike "
    "iteration counts are compared, and no run was repeated."
)


@dataclass(frozen=True, slots=True)
class Point:
    """The median of the repeats of one version on one number of threads; seconds and bytes."""

    version: str
    threads: int
    wallclock: float
    iterations: float
    io: float  # summed over threads, fsync included
    fsync: float  # summed over threads
    io_bytes: float
    operations: float

    @property
    def other_io(self) -> float:
        """I/O that is no fsync, summed over threads."""
        return self.io - self.fsync

    @property
    def relative_time(self) -> float:
        """Seconds per iteration, computing included."""
        return self.wallclock / self.iterations

    @property
    def bandwidth(self) -> float:
        """MiB/s that the application saw, computing included."""
        return self.io_bytes / 2**20 / self.wallclock

    @property
    def iops(self) -> float:
        """I/Os per second, computing included."""
        return self.operations / self.wallclock


def why_not(analysis: Analysis) -> str | None:
    """Why the figures of this study are not drawn for a run, or None."""
    rows = analysis.frame
    lacks = any(name not in rows.columns or rows[name].null_count() == len(rows) for name in NEEDS)
    if lacks or factor(analysis, VERSIONS) is None or factor(analysis, THREADS) is None:
        return "it belongs to the study durability"
    return None


def points(analysis: Analysis) -> list[Point]:
    """One per version and number of threads, by threads within a version.

    The original figures are drawn of what was recorded, whatever a check forbids of it: they stand
    in the report to be compared with the published ones, under what is wrong with them.
    """
    version, threads = factor(analysis, VERSIONS), factor(analysis, THREADS)
    assert version is not None  # `why_not` was asked before
    assert threads is not None
    whole = pl.col("role") == "trial"
    for name in NEEDS:
        whole &= pl.col(name).is_not_null()
    rows = analysis.frame.filter(whole).group_by(version.name, threads.name, maintain_order=True)
    table = {
        (row[version.name], row[threads.name]): row
        for row in rows.agg(pl.col(NEEDS).median()).to_dicts()
    }
    return [
        _point(table[v, t], v, t) for v in version.levels for t in threads.levels if (v, t) in table
    ]


def versions(found: list[Point]) -> list[str]:
    """The versions in the order of the study."""
    return list(dict.fromkeys(point.version for point in found))


def means(found: list[Point], of: Callable[[Point], float]) -> dict[str, float]:
    """The mean over the numbers of threads, per version, as the original's composition has it."""
    parts = {v: [of(p) for p in found if p.version == v] for v in versions(found)}
    return {version: sum(values) / len(values) for version, values in parts.items()}


def _point(row: dict[str, float], version: str, threads: str) -> Point:
    return Point(
        version=version,
        threads=int(amount(threads) or 0),
        wallclock=row["elapsed_ns"] / 1e9,
        iterations=row["iterations"],
        io=row["thread_io_ns"] / 1e9,
        fsync=row["thread_sync_ns"] / 1e9,
        io_bytes=row["user_bytes"],
        operations=row["io_count"],
    )


def factor(analysis: Analysis, names: tuple[str, ...]) -> Factor | None:
    """The first of these factors that the run varies."""
    named = {factor.name: factor for factor in analysis.own_factors}
    return next((named[name] for name in names if name in named), None)
