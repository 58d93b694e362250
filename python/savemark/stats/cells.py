"""A cell is one setting on one target: its repeats, phase by phase."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from savemark.stats.ceilings import Ceilings, Limit, limit, rate
from savemark.stats.spread import Spread, spread

GIB = 2**30
PREPARE = "prepare"


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

    @property
    def of_limit(self) -> float | None:
        """Share of the limit that the median reaches; None if no ceiling was measured."""
        return self.user_rate / self.limit.rate if self.limit else None

    @property
    def fastest(self) -> float:
        """User bytes per second at the lower end of the seconds' interval (or range)."""
        return self.user_bytes / self.seconds.low

    @property
    def slowest(self) -> float:
        """User bytes per second at the upper end of the seconds' interval (or range)."""
        return self.user_bytes / self.seconds.high


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting on one target."""

    label: str
    setting: str
    codec: str
    streams: int
    factors: dict[str, Any]
    phases: dict[str, PhaseStat]
    total: Spread | None
    failed: int
    variant: str = ""  # what varies besides codec and streams, in words
    given: str = ""  # the part of it that nobody chooses: what is saved
    cpu_samples: tuple[float, ...] = ()  # CPU-seconds per GiB of each repeat, all phases
    blocked: dict[str, str] = field(default_factory=dict)  # phase -> id of the check

    @property
    def n(self) -> int:
        """Repeats that finished."""
        return self.total.n if self.total else 0

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


def cells(frame: pl.DataFrame, label: str, of: Ceilings, cores: int | None) -> list[Cell]:
    """All settings of one target, in the order in which they first ran."""
    rows = frame.filter((pl.col("role") == "trial") & (pl.col("label") == label))
    groups = rows.group_by("setting", maintain_order=True)
    return [_cell(label, str(setting), group, of, cores) for (setting,), group in groups]


def _cell(label: str, setting: str, rows: pl.DataFrame, of: Ceilings, cores: int | None) -> Cell:
    # What was imported may have a rate and no time: nothing can be computed from that here.
    timed = pl.col("phase").is_not_null() & pl.col("elapsed_ns").is_not_null()
    good = rows.filter(timed & (pl.col("phase") != PREPARE))
    first = rows.row(0, named=True)
    codec, streams = str(first["codec"] or "none"), int(first["streams"] or 0)
    phases = {}
    for (name,), part in good.group_by("phase", maintain_order=True):
        ratio = _ratio(part)
        bound = limit((codec, streams), str(name), ratio, of, cores)
        phases[str(name)] = _phase(str(name), part, bound)
    summed = ("elapsed_ns", "cpu_user_ns", "cpu_system_ns", "user_bytes")
    totals = good.group_by("index", maintain_order=True).agg(
        *(pl.col(name).sum() for name in summed), pl.col("phase").len().alias("phases")
    )
    return Cell(
        label=label,
        setting=setting,
        codec=codec,
        streams=streams,
        factors={"codec": codec, "streams": streams},
        phases=phases,
        total=spread([ns / 1e9 for ns in totals["elapsed_ns"]]) if len(totals) else None,
        failed=rows.filter(pl.col("phase").is_null())["index"].n_unique(),
        variant=str(first["variant"] or ""),
        given=str(first["given"] or ""),
        cpu_samples=tuple(_cpu_s_per_gib(row) for row in totals.iter_rows(named=True)),
    )


def _cpu_s_per_gib(trial: dict[str, Any]) -> float:
    """CPU-seconds of all phases of one trial per GiB of its state, as `Cell.cpu_s_per_gib`."""
    cpu = (trial["cpu_user_ns"] + trial["cpu_system_ns"]) / 1e9
    return (
        float(cpu / (trial["user_bytes"] / trial["phases"] / GIB)) if trial["user_bytes"] else 0.0
    )


def _ratio(rows: pl.DataFrame) -> float:
    stored = int(rows["stored_bytes"].sum())
    return int(rows["user_bytes"].sum()) / stored if stored else 1.0


def _phase(name: str, rows: pl.DataFrame, bound: Limit | None) -> PhaseStat:
    seconds = [max(ns, 1) / 1e9 for ns in rows["elapsed_ns"]]
    user = [int(count or 0) for count in rows["user_bytes"]]
    stored = [int(count or 0) for count in rows["stored_bytes"]]
    cpu = int(rows["cpu_user_ns"].sum()) + int(rows["cpu_system_ns"].sum())
    return PhaseStat(
        name=name,
        seconds=spread(seconds),
        trials=tuple(sorted(zip(rows["repeat"], seconds, strict=True))),
        user_bytes=sorted(user)[len(user) // 2],
        stored_bytes=sorted(stored)[len(stored) // 2],
        user_rate=rate(user, seconds),
        stored_rate=rate(stored, seconds),
        # Costs are summed, then divided once (Hoefler & Belli, SC'15, rules 3 and 4).
        cpu_s_per_gib=(cpu / 1e9) / (sum(user) / GIB) if sum(user) else 0.0,
        # Without bytes there is no rate that a limit could be compared with.
        limit=bound if sum(user) else None,
    )
