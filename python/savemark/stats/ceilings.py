"""What the machine can do, measured in the same run, and which of it binds a setting."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from savemark.stats.spread import Spread, spread

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
# Used where the first was not measured.
INSTEAD = {"read_checked": "read"}


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One phase of a ceiling trial over its repeats."""

    name: str
    phase: str
    title: str
    seconds: Spread
    rate: float
    iops: float | None
    sync_ns: float | None
    ratio: float
    user_bytes: int


@dataclass(frozen=True, slots=True)
class Limit:
    """The most a setting can reach (user bytes per second), and what sets it."""

    rate: float
    name: str


Ceilings = dict[str, Ceiling]


def ceilings(frame: pl.DataFrame, label: str) -> Ceilings:
    """The ceilings of one target by name; those of memory and codecs may belong to any target.

    Of one that was measured on several numbers of workers (`write/8`) the fastest counts.
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
            if key not in found or found[key].rate < one.rate:
                found[key] = one
    return found


def limit(
    where: tuple[str, int], phase: str, ratio: float, of: Ceilings, cores: int | None
) -> Limit | None:
    """Return the lower of what the disk and the processor allow, in user bytes per second.

    `where` is (codec, streams). The disk moves stored bytes, so its ceiling counts `ratio` times
    in user bytes. A codec runs on one thread per stream, at most on every core; streams 0 is one
    thread. tar has no codec of its own and cannot be faster than copying memory. A restore looks at
    every byte, so it is held against reading that does the same: a virtual disk can be a third
    faster at moving bytes that no processor of the guest ever touches.
    """
    if phase not in SIDES:
        return None
    (codec, streams), (disk_name, codec_phase) = where, SIDES[phase]
    disk = of.get(disk_name) or of.get(INSTEAD.get(disk_name, ""))
    if disk is None:
        return None  # without the disk's own ceiling nothing is known about what binds
    bounds = [Limit(disk.rate * ratio, disk.title)]
    if one_core := of.get(f"codec/{codec} {codec_phase}"):
        threads = min(max(streams, 1), cores or max(streams, 1))
        plural = "s" if threads > 1 else ""
        bounds.append(Limit(one_core.rate * threads, f"codec {codec} × {threads} core{plural}"))
    if codec == "tar" and (copy := of.get("memcpy")):
        bounds.append(Limit(copy.rate, copy.title))
    return min(bounds, key=lambda bound: bound.rate)


def rate(amounts: list[int], seconds: list[float]) -> float:
    """Bytes per second from times, never as a mean of rates (Hoefler & Belli, SC'15, rule 3).

    The same amount each time: amount / median time. Different amounts (a time limit): sums.
    """
    if len(set(amounts)) == 1:
        return amounts[0] / spread(seconds).median
    return sum(amounts) / sum(seconds)


def _ceiling(name: str, phase: str, rows: pl.DataFrame) -> Ceiling:
    base, _, workers = name.rpartition("/")
    name = base if workers.isdigit() else name
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
        rate=rate(user, seconds),
        iops=sum(counts) / sum(seconds) if any(counts) else None,
        sync_ns=spread(syncs).median if syncs else None,
        ratio=sum(user) / stored if stored else 1.0,
        user_bytes=sorted(user)[len(user) // 2],
    )
