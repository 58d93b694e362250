"""Tables across storages, and the speed of each storage by itself, for checkpoint-restore."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from savemark.records.imported import PROBE
from savemark.report.analysis import Analysis
from savemark.report.document import MISSING, Datum, Line, Table, quantity
from savemark.report.text import both, gbs, seconds
from savemark.stats import Spread, TargetResult, median
from savemark.stats import speeds as per_second
from savemark.studies.checkpoint_restore.parts import (
    Part,
    common,
    leading,
    original,
    parts,
    variants,
)

# Phase or ceiling -> what the original study called it.
DISK = {
    "write": ("Sequential Writes", "Initial Write"),
    "rewrite": ("Sequential Writes", "Rewrite"),
    "read": ("Sequential Reads", "Read"),
    "random_read": ("Random Reads", "Random Read"),
    "random_write": ("Random Writes", "Random Write"),
}
NETWORK = {"read": "Download", "write": "Upload"}
MOMENTS = ("frozen_ns", "durable_ns", "drained_ns")
THREADS = ("thread_wait_ns", "thread_codec_ns", "thread_digest_ns")


@dataclass(frozen=True, slots=True)
class Speed:
    """One way of using a storage by itself, in bytes per second."""

    repeats: Spread  # the rate of each repeat
    written_back: float | None  # including write-back; None where nobody waited for that

    @property
    def rate(self) -> float:
        """The median."""
        return self.repeats.median


def storages_tables(analysis: Analysis) -> list[Table]:
    """Return the tables that stand once, above those of each storage."""
    found = [_compared(variant, same) for variant, same in variants(analysis).items()]
    if original(analysis):
        for result in analysis.results:
            found += [disk_legacy(analysis, result), disk_table(analysis, result)]
            found.append(network_table(analysis, result))
    found += [moments_table(analysis, part) for part in parts(analysis)]
    return [table for table in found if table is not None]


def _compared(variant: str, same: list[Part]) -> Table | None:
    """Every cell that all storages have, a column per storage; ties are marked in each line."""
    if len(same) < 2 or not (cells := common(same)):
        return None
    totals = {cell: [part.total(*cell) for part in same] for cell in cells}
    lines = []
    for cell in sorted(cells, key=lambda cell: min(t.median for t in totals[cell])):
        ahead, fastest = leading(same, cell), min(t.median for t in totals[cell])
        data = [Datum(f"{cell[0]} × {cell[1]}")]
        for part, total in zip(same, totals[cell], strict=True):
            best = "◀" if total.median == fastest else "="
            mark = f" {best}" if part.label in ahead else ""
            text = f"{seconds(total.median)} [{seconds(total.low)} {seconds(total.high)}]{mark}"
            data.append(Datum(text, total.median, f"n = {total.n}, {total.kind}"))
        lines.append(Line(data))
    others = {cell for part in same for cell in part.legacy.cells} - set(cells)
    note = (
        "Median of save + restore in seconds; brackets: 95 % interval for 6 or more repeats, else "
        "the range. ◀ fastest storage of the line, = tied with it. "
    )
    if others:
        names = [f"{codec} × {streams}" for codec, streams in sorted(others)]
        note += f"Left out, for not every storage has them: {both(names)}."
    title = f"Storages, corrected{f' ({variant})' if variant else ''}"
    heads = ["setting", *(part.label for part in same)]
    return Table(f"corrected_storages_{variant}", title, heads, lines, note)


def speeds(analysis: Analysis, result: TargetResult) -> dict[str, Speed]:
    """Return what was measured of a storage by itself: its ceilings, or a disk benchmark alone."""
    frame = analysis.frame.filter((pl.col("label") == result.label) & (pl.col("elapsed_ns") > 0))
    frame = frame.filter((pl.col("phase") != "prepare") & (pl.col("user_bytes") > 0))
    tops = frame.filter(pl.col("role") == "ceiling")
    if tops.is_empty():
        tops = frame.filter(pl.col("workload") == PROBE).with_columns(name="phase")
    found: dict[str, Speed] = {}
    for (full,), rows in tops.group_by("name", maintain_order=True):
        # `write/1` and `write/8` are one way, on one worker and on eight: the fastest counts.
        name = str(full).split("/")[0]
        speed = _speed(rows, name)
        if name in DISK and (name not in found or found[name].rate < speed.rate):
            found[name] = speed
    return {name: found[name] for name in DISK if name in found}


def _speed(rows: pl.DataFrame, name: str) -> Speed:
    amounts = rows["user_bytes"].to_list()
    times = [ns / 1e9 for ns in rows["elapsed_ns"]]
    repeats, back = per_second(amounts, times), None
    if "write" in name and rows["contract"].is_in(["end", "each"]).all():
        back = repeats.median
    elif "write" in name and not rows["outer_elapsed_ns"].has_nulls():
        back = per_second(amounts, [ns / 1e9 for ns in rows["outer_elapsed_ns"]]).median
    return Speed(repeats, back)


def disk_legacy(analysis: Analysis, result: TargetResult) -> Table | None:
    """The original study's table of disk speeds: kB are 1024 bytes, MB are 1024 kB."""
    if "://" in result.target or not (found := speeds(analysis, result)):
        return None
    lines = []
    for name, speed in found.items():
        kb = speed.rate / 1024
        data = [*(Datum(word) for word in DISK[name]), Datum(f"{kb:,.2f}", kb)]
        lines.append(Line([*data, Datum(f"~{kb / 1024:.2f} MB/s", kb)]))
    heads = ["Operation Type", "Sub-test", "Throughput (kB/sec)", "Throughput (MB/sec)"]
    note = "As the original study printed it: kB are 1024 bytes and MB are 1024 kB."
    name = f"legacy_disk_{result.label}"
    return Table(name, f"Disk speeds of {result.label}, legacy", heads, lines, note)


def disk_table(analysis: Analysis, result: TargetResult) -> Table | None:
    """The same in GB/s, with what was safe at the end."""
    if "://" in result.target or not (found := speeds(analysis, result)):
        return None
    lines = []
    for name, speed in found.items():
        low, high = speed.repeats.low, speed.repeats.high
        back = speed.written_back
        lines.append(Line([
            *(Datum(word) for word in DISK[name]),
            Datum(gbs(speed.rate), speed.rate),
            Datum(f"[{gbs(low)} {gbs(high)}]", low, speed.repeats.kind),
            quantity(back, gbs),
            Datum(str(speed.repeats.n), speed.repeats.n),
        ]))  # fmt: skip
    heads = ["operation", "sub-test", "GB/s", "[low high]", "GB/s, written back", "n"]
    note = (
        "“Written back” counts the time until the bytes had left the page cache, "
        "as far as the tool waited for that; a dash means that nobody looked. Only that number may "
        "be compared with a durable save."
    )
    name = f"corrected_disk_{result.label}"
    return Table(name, f"Disk speeds of {result.label}, corrected", heads, lines, note)


def network_table(analysis: Analysis, result: TargetResult) -> Table | None:
    """What the network to a bucket carries, measured with the bucket itself."""
    found = speeds(analysis, result) if "://" in result.target else {}
    lines = []
    for name, word in NETWORK.items():
        if speed := found.get(name):
            mbit = [8 * r / 1e6 for r in (speed.rate, speed.repeats.low, speed.repeats.high)]
            lines.append(Line([
                Datum(word),
                Datum(f"{mbit[0]:.2f}", mbit[0]),
                Datum(f"[{mbit[1]:.0f} {mbit[2]:.0f}]", mbit[1], speed.repeats.kind),
                Datum(gbs(speed.rate), speed.rate),
                Datum(str(speed.repeats.n), speed.repeats.n),
            ]))  # fmt: skip
    heads = ["", "Mbit/s", "[low high]", "GB/s", "n"]
    note = (
        "To and from the bucket that was measured and with the same client, the fastest of one "
        "object and of as many at once as there are streams: a speed test against another server "
        "says nothing about it."
    )
    title = f"Network to {result.label}"
    return Table(f"network_{result.label}", title, heads, lines, note) if lines else None


def moments_table(analysis: Analysis, part: Part) -> Table | None:
    """Until when the application waits, the bytes are safe, all is done, all is verified."""
    mine = (pl.col("label") == part.label) & (pl.col("variant") == part.variant)
    rows = analysis.frame.filter(mine & (pl.col("role") == "trial"))
    if rows["frozen_ns"].null_count() == len(rows):
        return None
    lines = []
    for (setting,), group in rows.group_by("setting", maintain_order=True):
        saves = group.filter(pl.col("phase") == "save")
        reads = group.filter(pl.col("phase") == "restore")
        checked = reads.filter(pl.col("verified").is_not_null())
        data = [Datum(str(setting))] + [_median(saves, column) for column in MOMENTS]
        data += [_median(reads, "fetched_ns"), _median(checked, "elapsed_ns")]
        data += [_median(reads, column) for column in THREADS]
        lines.append(Line(data))
    lines.sort(key=lambda line: (line.data[1].missing, float(line.data[1].sort or 0)))
    heads = ["setting", "frozen", "durable", "drained", "fetched", "verified"]
    heads += ["fetch", "decode", "checksum"]
    groups = [("", 1), ("save, seconds until", 3), ("restore, seconds until", 2)]
    note = (
        "Medians. Frozen: the application may go on; durable: the bytes are on stable storage (as "
        "far as the storage says); drained: nothing is left to do. A synchronous save promises all "
        "three at the same moment. Fetched: the last byte has arrived; checking and decoding "
        "overlap with that, so they are given in thread-seconds, which do not add up to wall time."
    )
    title = f"Moments on {part.title}"
    name = f"moments_{part.title}"
    return Table(name, title, heads, lines, note, [*groups, ("restore, thread-seconds", 3)])


def _median(rows: pl.DataFrame, column: str) -> Datum:
    values = [ns / 1e9 for ns in rows[column].drop_nulls()]
    if not values or len(values) < len(rows):
        return MISSING  # not known, or not promised, in every repeat
    middle = median(values)
    return Datum(seconds(middle), middle, f"n = {len(values)}")
