"""A cell is one setting on one target: its repeats, phase by phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import polars as pl

from savemark.records.naming import LEADING
from savemark.stats.ceilings import Bounds, Limit
from savemark.stats.spread import Spread, median, speeds, spread

GIB = 2**30
PREPARE = "prepare"
TOTAL = "total"
# Workloads whose speed is a number of operations, and what those are called; others move bytes.
COUNTED = {"metadata": "op/s", "random": "IOPS"}
BYTES = "GB/s"
# Workloads that give each worker a share: when the first one is done says something.
SHARED_OUT = ("sequential", "shared_file", "file_per_process")

# Of the latency of one I/O or operation; medians of the repeats' own percentiles.
LATENCIES = ("p50", "p99", "p99_9", "p99_99")
Row = Mapping[str, Any]


def unit_of(workload: str, phase: str) -> str:
    """The unit of a phase's speed."""
    if workload == "io500":
        return BYTES if phase.startswith("ior") else "op/s"
    return COUNTED.get(workload, BYTES)


class Key(NamedTuple):
    """One phase of one setting on one target."""

    label: str
    setting: str
    phase: str


@dataclass(frozen=True, slots=True)
class PhaseStat:
    """One phase of a cell over its repeats."""

    name: str
    seconds: Spread
    trials: tuple[tuple[int, float], ...]  # (repeat, seconds), for whoever wants to see them
    user_bytes: int
    stored_bytes: int
    user_rate: float
    stored_rate: float
    cpu_s_per_gib: float
    limit: Limit | None
    unit: str = BYTES  # of `speed`: GB/s, IOPS or op/s
    operations: int = 0
    operation_rate: float = 0.0
    cpu_s_per_operation: float = 0.0
    # The speed of each repeat, in bytes or operations per second; None where neither is known.
    speeds: Spread | None = None
    latency_ns: Mapping[str, float] = field(default_factory=dict)  # by name in LATENCIES
    # Bytes per second until the first of several workers was done, and how far that is from
    # `user_rate`, trial by trial; 0 where there is one worker, or nobody wrote it down.
    first_rate: float = 0.0
    first_apart: float = 0.0

    @property
    def counted(self) -> bool:
        """Whether its speed is a number of operations."""
        return self.unit != BYTES

    @property
    def speed(self) -> float:
        """Operations or user bytes per second; 0 where neither is known."""
        return self.operation_rate if self.counted else self.user_rate

    @property
    def of_limit(self) -> float | None:
        """Share of the limit that the median reaches; None if no ceiling was measured."""
        return self.user_rate / self.limit.rate if self.limit else None

    @property
    def fastest(self) -> float:
        """The upper end of the speeds' interval (or range)."""
        return self.speeds.high if self.speeds else 0.0

    @property
    def slowest(self) -> float:
        """The lower end of the speeds' interval (or range)."""
        return self.speeds.low if self.speeds else 0.0


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting on one target."""

    label: str
    setting: str
    leading: Mapping[str, Any]  # the levels of the leading factors, varied or not
    phases: dict[str, PhaseStat]
    total: Spread | None
    failed: int
    variant: str = ""  # what varies besides the leading factors, in words
    given: str = ""  # the part of it that nobody chooses: what is saved
    cpu_samples: tuple[float, ...] = ()  # CPU-seconds per GiB of each repeat, all phases
    blocked: dict[str, str] = field(default_factory=dict)  # phase -> id of the check
    factors: Mapping[str, Any] = field(default_factory=dict)  # the levels, as the study has them
    ran: Mapping[str, str] = field(default_factory=dict)  # each phase that ran -> unit of its speed
    n: int = 0  # repeats that finished
    # By `total` and phase: how many settings of the target have a smaller median. Says who was
    # faster where the numbers themselves are forbidden.
    places: Mapping[str, int] = field(default_factory=dict)
    # Seconds per byte (without bytes: per operation) of each repeat, by phase and in `total`; and
    # the least and most that a repeat did.
    paces: Mapping[str, Spread] = field(default_factory=dict)
    amounts: tuple[int, int] = (0, 0)

    @property
    def codec(self) -> str:
        """How bytes are encoded; `none` where nothing says that they are."""
        return str(self.leading["codec"])

    @property
    def streams(self) -> int:
        """Parallel streams; 0 is one sequential archive."""
        return int(self.leading["streams"])

    def level(self, name: str) -> Any:
        """The level of a factor, None where it has none; a leading one has one in any study."""
        return self.leading.get(name, self.factors.get(name))

    def visible(self) -> Cell:
        """The cell without the numbers of phases that a check forbids, nor any made of them."""
        if not self.blocked:
            return self
        phases = {name: each for name, each in self.phases.items() if name not in self.blocked}
        paces = {name: each for name, each in self.paces.items() if name in phases}
        return replace(self, phases=phases, total=None, paces=paces, cpu_samples=())

    @property
    def whole(self) -> bool:
        """Whether the numbers of all phases that ran are here."""
        return len(self.phases) == len(self.ran)

    @property
    def sized(self) -> bool:
        """Whether bytes are known: what was imported may have times alone."""
        return any(phase.user_bytes for phase in self.phases.values())

    @property
    def ratio(self) -> float:
        """User bytes per stored byte."""
        first = next(iter(self.phases.values()), None)
        return first.user_bytes / first.stored_bytes if first and first.stored_bytes else 1.0

    @property
    def cpu_s_per_gib(self) -> float:
        """CPU-seconds per GiB of state, for all phases together."""
        return sum(phase.cpu_s_per_gib for phase in self.phases.values())

    @property
    def counted(self) -> bool:
        """Whether all its speeds are numbers of operations."""
        return bool(self.ran) and all(unit != BYTES for unit in self.ran.values())

    @property
    def cpu_s_per_operation(self) -> float:
        """CPU-seconds per operation, for all phases together."""
        return sum(phase.cpu_s_per_operation for phase in self.phases.values())


CPU = ("cpu_user_ns", "cpu_system_ns")
SUMMED = ("elapsed_ns", *CPU, "user_bytes", "io_count")
COSTS = (*CPU, "user_bytes", "phases")
FIRST = ("first_done_ns", "first_done_bytes", "last_done_ns")
LISTED = (
    *("repeat", "index", *SUMMED, "stored_bytes", *FIRST),
    *(f"latency_{name}_ns" for name in LATENCIES),
)


def cells(frame: pl.DataFrame, label: str, bounds: Bounds) -> list[Cell]:
    """All settings of one target, in the order in which they first ran.

    The columns of all cells are put together at once: ten thousand cells are no reason to wait.
    """
    rows = frame.filter((pl.col("role") == "trial") & (pl.col("label") == label))
    # What was imported may have a rate and no time: nothing can be computed from that here.
    timed = pl.col("phase").is_not_null() & pl.col("elapsed_ns").is_not_null()
    good = rows.filter(timed & (pl.col("phase") != PREPARE))
    heads = rows.group_by("setting", maintain_order=True).agg(
        pl.col(*LEADING, "variant", "given").first(),
        failed=pl.col("index").filter(pl.col("phase").is_null()).n_unique(),
    )
    phases = good.group_by("setting", "phase", maintain_order=True).agg(
        pl.col("workload").first(), pl.col(LISTED)
    )
    # What a trial did in all, and the most that one of its phases did: the size of its work.
    trials = good.group_by("setting", "index", maintain_order=True).agg(
        pl.col(SUMMED).sum(),
        pl.col("repeat").first(),
        most_bytes=pl.col("user_bytes").max(),
        most_operations=pl.col("io_count").max(),
        phases=pl.col("phase").len(),
    )
    # A row per setting, its trials in lists: a hundred thousand rows of Python are a lot of memory.
    trials = trials.group_by("setting", maintain_order=True).agg(pl.all())
    by_phase: dict[str, list[Row]] = {}
    for row in phases.iter_rows(named=True):
        by_phase.setdefault(row["setting"], []).append(row)
    by_trial = {row["setting"]: row for row in trials.iter_rows(named=True)}
    none: Row = {name: [] for name in trials.columns}
    settings = ((head["setting"], head) for head in heads.iter_rows(named=True))
    return [
        _cell(label, head, by_phase.get(name, []), by_trial.get(name, none), bounds)
        for name, head in settings
    ]


def _cell(label: str, head: Row, phases: Sequence[Row], trials: Row, bounds: Bounds) -> Cell:
    leading = {name: head[name] or factor.default for name, factor in LEADING.items()}
    found = {
        row["phase"]: _phase(row, bounds.limit(leading, row["phase"], _ratio(row)))
        for row in phases
    }
    seconds = [ns / 1e9 for ns in trials["elapsed_ns"]]
    most = zip(trials["index"], trials["most_bytes"], trials["most_operations"], strict=True)
    work = {index: size or operations or 0 for index, size, operations in most}
    return Cell(
        label=label,
        setting=str(head["setting"]),
        leading=leading,
        phases=found,
        ran={name: phase.unit for name, phase in found.items()},
        total=spread(seconds, repeats=trials["repeat"]) if seconds else None,
        n=len(seconds),
        failed=int(head["failed"]),
        variant=str(head["variant"] or ""),
        given=str(head["given"] or ""),
        cpu_samples=tuple(map(_cpu_s_per_gib, *(trials[name] for name in COSTS))),
        paces=_paces(phases, trials, work) if work and all(work.values()) else {},
        amounts=(min(work.values(), default=0), max(work.values(), default=0)),
    )


def _paces(phases: Sequence[Row], trials: Row, work: dict[int, int]) -> dict[str, Spread]:
    """Seconds per unit of work of each repeat: of each phase, and of all together."""

    def paces(row: Row) -> Spread:
        timed = zip(row["index"], row["elapsed_ns"], strict=True)
        each = [max(ns, 1) / 1e9 / work[index] for index, ns in timed]
        return spread(each, repeats=row["repeat"])

    return {TOTAL: paces(trials)} | {row["phase"]: paces(row) for row in phases}


def _cpu_s_per_gib(user_ns: int, system_ns: int, user_bytes: int, phases: int) -> float:
    """CPU-seconds of all phases of one trial per GiB of its state, as `Cell.cpu_s_per_gib`."""
    cpu = (user_ns + system_ns) / 1e9
    return float(cpu / (user_bytes / phases / GIB)) if user_bytes else 0.0


def _ratio(row: Row) -> float:
    stored = sum(_numbers(row["stored_bytes"]))
    return sum(_numbers(row["user_bytes"])) / stored if stored else 1.0


def _numbers(values: Sequence[int | None]) -> list[int]:
    return [int(value or 0) for value in values]


def _phase(row: Row, bound: Limit | None) -> PhaseStat:
    seconds = [max(ns, 1) / 1e9 for ns in row["elapsed_ns"]]
    user, stored = _numbers(row["user_bytes"]), _numbers(row["stored_bytes"])
    counts = _numbers(row["io_count"])
    cpu = sum(sum(_numbers(row[name])) for name in CPU) / 1e9
    unit = unit_of(str(row["workload"]), str(row["phase"]))
    moved, counted = speeds(user, seconds), speeds(counts, seconds)
    own, amounts = (moved, user) if unit == BYTES else (counted, counts)
    first, apart = _first(row) if row["workload"] in SHARED_OUT else (0.0, 0.0)
    return PhaseStat(
        name=str(row["phase"]),
        seconds=spread(seconds, repeats=row["repeat"]),
        trials=tuple(sorted(zip(row["repeat"], seconds, strict=True))),
        user_bytes=sorted(user)[len(user) // 2],
        stored_bytes=sorted(stored)[len(stored) // 2],
        user_rate=moved.median,
        stored_rate=speeds(stored, seconds).median,
        # Costs are summed, then divided once (Hoefler & Belli, SC'15, rules 3 and 4).
        cpu_s_per_gib=cpu / (sum(user) / GIB) if sum(user) else 0.0,
        # Without bytes there is no rate that a limit could be compared with.
        limit=bound if sum(user) else None,
        unit=unit,
        operations=sorted(counts)[len(counts) // 2],
        operation_rate=counted.median,
        cpu_s_per_operation=cpu / sum(counts) if sum(counts) else 0.0,
        speeds=own if all(amounts) else None,
        latency_ns=_latency(row),
        first_rate=first,
        first_apart=apart,
    )


def _first(row: Row) -> tuple[float, float]:
    """Bytes per second until the first worker was done, and |first - last|: medians of trials."""
    trials = zip(*(row[name] for name in (*FIRST, "user_bytes", "elapsed_ns")), strict=True)
    rates = [
        (moved / first * 1e9, user / max(elapsed, 1) * 1e9)
        for first, moved, last, user, elapsed in trials
        if first and moved and last and user and first < last
    ]
    if not rates:
        return 0.0, 0.0
    return median(one for one, _ in rates), median(abs(one - every) for one, every in rates)


def _latency(row: Row) -> dict[str, float]:
    """The middle repeat's percentiles: those of several runs cannot be averaged."""
    found = {name: [ns for ns in row[f"latency_{name}_ns"] if ns is not None] for name in LATENCIES}
    return {name: median(values) for name, values in found.items() if values}
