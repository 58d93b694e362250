"""What can be expected of a phase: each metric's name, its units, and its value in one repeat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from savemark.units import OPERATIONS, RATES, SPANS

Row = Mapping[str, Any]  # of the table of phases: nanoseconds, bytes, counts; None is unknown

# All that is measured of any workload; whoever judges a run knows which phases it has.
PHASES = (
    *("save", "restore", "write", "read", "create", "stat", "rename", "remove"),
    *("iterate", "restart", "upload", "download", "encode", "decode", "copy"),
    *("ior-easy-write", "ior-easy-read", "ior-hard-write", "ior-hard-read", "find"),
    *("mdtest-easy-write", "mdtest-easy-stat", "mdtest-easy-delete", "mdtest-hard-write"),
    *("mdtest-hard-stat", "mdtest-hard-read", "mdtest-hard-delete"),
)
PERCENTILES = ("min", "mean", "p50", "p90", "p99", "p99_9", "p99_99", "max")
NS = 1e9
TIMES = {unit: size for unit, size in SPANS.items() if unit}


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: bytes or operations per second, or seconds."""

    name: str
    units: Mapping[str, float]  # that it may be said in -> how much of the base unit each is
    of: Callable[[Row], float | None]  # in the base unit; None where the record does not say


def _per_second(amount: str, ns: str) -> Callable[[Row], float | None]:
    def of(row: Row) -> float | None:
        known = row.get(amount) and row.get(ns)
        return row[amount] * NS / row[ns] if known else None

    return of


def _seconds(ns: str) -> Callable[[Row], float | None]:
    return lambda row: None if row.get(ns) is None else row[ns] / NS


def _metrics() -> list[Metric]:
    """Without a prefix until the phase ended; `first_done` and `last_done` as the words say."""
    metrics = [
        Metric("bandwidth", RATES, _per_second("user_bytes", "elapsed_ns")),
        Metric("stored_bandwidth", RATES, _per_second("stored_bytes", "elapsed_ns")),
        Metric("rate", OPERATIONS, _per_second("io_count", "elapsed_ns")),
        Metric("elapsed", TIMES, _seconds("elapsed_ns")),
        Metric("first_done.bandwidth", RATES, _per_second("first_done_bytes", "first_done_ns")),
        Metric("last_done.bandwidth", RATES, _per_second("user_bytes", "last_done_ns")),
        Metric("last_done.rate", OPERATIONS, _per_second("io_count", "last_done_ns")),
    ]
    metrics += [
        Metric(f"{moment}.elapsed", TIMES, _seconds(f"{moment}_ns"))
        for moment in ("first_done", "last_done", "frozen", "durable", "drained")
    ]
    metrics += [
        Metric(f"{kind}.{name}", TIMES, _seconds(f"{kind}_{name}_ns"))
        for kind in ("latency", "sync_latency")
        for name in PERCENTILES
    ]
    return metrics


METRICS = {metric.name: metric for metric in _metrics()}
# Said before the name of the phase: `last_done.write.bandwidth`.
MOMENTS = ("first_done", "last_done", "frozen", "durable", "drained")


def spelled(phase: str, metric: str) -> str:
    """Return how a metric of a phase is written."""
    moment, _, rest = metric.partition(".")
    return f"{moment}.{phase}.{rest}" if moment in MOMENTS else f"{phase}.{metric}"


def names(phases: tuple[str, ...]) -> dict[str, tuple[str, Metric]]:
    """Return every way to write a metric of these phases -> the phase and the metric."""
    return {
        spelled(phase, name): (phase, metric)
        for phase in phases
        for name, metric in METRICS.items()
    }
