"""What the machine can do, measured in the same run, and which of it binds a setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from savemark.stats.spread import Spread, speeds, spread

# The name in the study, the phase of it that counts, and what it is called in front of a reader.
NAMES = {
    "write": "disk write",
    "read": "disk read",
    "read_checked": "checked disk read",
    "rewrite": "disk rewrite",
    "random_read": "4 KiB random read",
    "random_write": "4 KiB random write",
    "fsync": "fsync",
    "memcpy": "memory copy",
}
# Phase -> the ceiling of the disk that it meets, and the phase of the codec's.
SIDES = {
    "save": ("write", "encode"),
    "write": ("write", "encode"),
    "restore": ("read_checked", "decode"),
    "read": ("read", "decode"),
}
# A ceiling whose repeats leave it more open than this share may raise a doubt, but forbid nothing.
FIRM = 0.10
# Used where the first was not measured.
INSTEAD = {"read_checked": "read"}


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One phase of a ceiling trial over its repeats."""

    name: str
    phase: str
    title: str
    seconds: Spread
    rates: Spread  # user bytes per second
    operations: Spread | None  # per second; None where none are counted
    sync_ns: float | None
    ratio: float
    # Measured on so many workers alone: it bounds what has as many streams, and nothing else. None
    # where it is the fastest of several numbers, or the study has but one.
    workers: int | None = None

    @property
    def rate(self) -> float:
        """User bytes per second: the median."""
        return self.rates.median

    @property
    def iops(self) -> float | None:
        """Operations per second: the median."""
        return self.operations.median if self.operations else None

    def limit(self, times: float = 1.0, name: str = "") -> Limit:
        """Return it as a limit, so many times as high, under another name."""
        rates = self.rates
        ends = (rates.low * times, rates.high * times) if rates.n > 1 and self.rate else None
        return Limit(self.rate * times, name or self.title, ends)


@dataclass(frozen=True, slots=True)
class Limit:
    """The most a setting can reach (user bytes per second), and what sets it."""

    rate: float
    name: str
    # The interval (or range) of `rate`. None where nothing shows it: one repeat, or no bytes.
    ends: tuple[float, float] | None = None

    @property
    def width(self) -> float | None:
        """How far its repeats leave it open: the whole interval over the median."""
        return (self.ends[1] - self.ends[0]) / self.rate if self.ends else None

    @property
    def firm(self) -> bool:
        """Whether it is known well enough to forbid a number that is above it."""
        return self.width is not None and self.width <= FIRM


Ceilings = dict[str, Ceiling]


def ceilings(frame: pl.DataFrame, label: str) -> Ceilings:
    """The ceilings of one target by name; those of memory and codecs may belong to any target.

    Of one that was measured on several numbers of workers (`write/8`) the fastest counts; one that
    was measured on a single number of them, as a race does, bounds what has as many streams.
    """
    rows = frame.filter(
        (pl.col("role") == "ceiling")
        & pl.col("phase").is_not_null()
        & (pl.col("phase") != "prepare")
        & (pl.col("elapsed_ns") > 0)
    )
    found: Ceilings = {}
    for (name, phase), group in rows.group_by("name", "phase", maintain_order=True):
        own = group.filter(pl.col("label") == label)
        anywhere = str(name) == "memcpy" or str(name).startswith("codec/")
        part = group if own.is_empty() and anywhere else own
        if not part.is_empty():
            one = _ceiling(str(name), str(phase), part)
            key = f"{name} {phase}" if str(name).startswith("codec/") else one.name
            if key in found:
                one = replace(max(found[key], one, key=lambda each: each.rate), workers=None)
            found[key] = one
    return found


@dataclass(frozen=True, slots=True)
class Bounds:
    """What can bind a setting of one target."""

    ceilings: Ceilings
    cores: int | None  # that may be used; None where that is not recorded

    def limit(self, levels: Mapping[str, Any], phase: str, ratio: float) -> Limit | None:
        """Return the lower of what the disk and the processor allow, in user bytes per second.

        The disk moves stored bytes, so its ceiling counts `ratio` times in user bytes. A codec runs
        on one thread per stream, at most on every core; streams 0 is one thread. tar has no codec
        of its own and cannot be faster than copying memory. A restore looks at every byte, so it is
        held against reading that does the same: a virtual disk can be a third faster at moving
        bytes that no processor of the guest ever touches.
        """
        if phase not in SIDES:
            return None
        disk_name, codec_phase = SIDES[phase]
        codec, streams = levels["codec"], max(levels["streams"], 1)
        disk = self.ceilings.get(disk_name) or self.ceilings.get(INSTEAD.get(disk_name, ""))
        if disk is None or not disk.rate or disk.workers not in (None, streams):
            return None  # without the disk's own ceiling nothing is known about what binds
        found = [disk.limit(ratio)]
        if one_core := self.ceilings.get(f"codec/{codec} {codec_phase}"):
            threads = min(streams, self.cores or streams)
            plural = "s" if threads > 1 else ""
            found.append(one_core.limit(threads, f"codec {codec} × {threads} core{plural}"))
        if codec == "tar" and (copy := self.ceilings.get("memcpy")):
            found.append(copy.limit())
        # A damaged record may have no bytes: it bounds nothing.
        return min((each for each in found if each.rate), key=lambda each: each.rate, default=None)


def _ceiling(name: str, phase: str, rows: pl.DataFrame) -> Ceiling:
    base, _, count = name.rpartition("/")
    workers = int(count) if base and count.isdigit() else None
    name = name if workers is None else base
    seconds = [ns / 1e9 for ns in rows["elapsed_ns"]]
    user = [int(count or 0) for count in rows["user_bytes"]]
    stored = sum(int(count or 0) for count in rows["stored_bytes"])
    counts = [int(count or 0) for count in rows["io_count"]]
    syncs = [ns for ns in rows["sync_latency_p50_ns"] if ns is not None]
    return Ceiling(
        name=name,
        phase=phase,
        title=NAMES.get(name, name.replace("codec/", "codec ")),
        seconds=spread(seconds),
        rates=speeds(user, seconds),
        operations=speeds(counts, seconds) if any(counts) else None,
        sync_ns=spread(syncs).median if syncs else None,
        ratio=sum(user) / stored if stored else 1.0,
        workers=workers,
    )
