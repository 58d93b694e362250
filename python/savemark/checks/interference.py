"""Whether anybody else was at work: on the device, on the processors, in the hypervisor."""

from __future__ import annotations

import polars as pl

from savemark.checks.device import traffic
from savemark.checks.registry import Evidence, Finding, Remedy, Verdict, check
from savemark.checks.wording import count, keys, percent, rate, settings

# More traffic than ours by this share, and by more than metadata and journal could explain.
FOREIGN = 0.25
FOREIGN_BYTES = 32 * 2**20
# /proc/stat counts in ticks of 10 ms: shares of less CPU time than this mean nothing.
LEAST_NS = 200_000_000
# Of a phase that is shorter than a step the engine records none.
STEP_NS = 1_000_000
TOO_SHORT = "phases too short for processor counters"


@check(
    "HC-31",
    "Nobody else was at work",
    rule="device bytes that are not ours > 25 % and > 32 MiB; CPU time of others, steal, quota "
    "throttling or thermal throttling above their limits",
    verdict="FLAG",
    applies="L",
    foreign_cpu_share=0.3,
    steal_share=0.05,
    throttled_share=0.05,
    doubt="others used the disk or the processors",
    remedy=Remedy.IDLE,
)
def alone(evidence: Evidence) -> Finding:
    """Find phases in which the machine did clearly more than the trial asked of it."""
    disk, disk_said = _disk(evidence)
    cpu, cpu_said = _processors(evidence)
    found = [finding for finding in (disk, cpu) if finding is not None]
    if not found:
        known = [text for text in (disk_said, cpu_said) if text]
        if not known:
            return Finding(Verdict.UNVERIFIED, "No device and no processor counters.")
        return Finding(Verdict.OK, "; ".join(known) + ".")
    first = found[0]
    if len(found) == 1:
        return first
    return Finding(
        Verdict.FLAG,
        f"{first.evidence} {found[1].evidence}",
        f"{first.cause} {found[1].cause}",
        f"{first.fix} {found[1].fix}",
    )


def _disk(evidence: Evidence) -> tuple[Finding | None, str]:
    rows = traffic(evidence.live)
    if rows.is_empty():
        return None, ""
    foreign = (pl.col("moved") - pl.col("stored_bytes")).clip(0) + pl.col("other")
    rows = rows.with_columns(foreign=foreign)
    much = (pl.col("foreign") > FOREIGN_BYTES) & (
        pl.col("foreign") > FOREIGN * pl.col("stored_bytes")
    )
    busy = rows.filter(much).sort("foreign", descending=True)
    if busy.is_empty():
        share = int(rows["foreign"].sum()) / int(rows["stored_bytes"].sum())
        return None, f"{rows['device_name'][0]} moved {percent(share)} more than the trials did"
    worst = busy.row(0, named=True)
    speed = rate(worst["foreign"] / worst["elapsed_ns"] * 1e9)
    finding = Finding(
        Verdict.FLAG,
        f"{settings(keys(busy))}: in {count(len(busy), 'phase')} the device also moved bytes that "
        f"are not ours, up to {speed} ({worst['setting']}, repeat {worst['repeat']}, "
        f"{worst['phase']}).",
        "Another process used the same disk.",
        "Find it with `iotop -oa` or `pidstat -d 1`, stop it, and run again.",
    )
    return finding, ""


def _processors(evidence: Evidence) -> tuple[Finding | None, str]:
    """Shares of CPU time over all repeats of a phase: one repeat may be shorter than a tick."""
    rows = evidence.live.filter(pl.col("machine_elapsed_ns") > 0)
    if rows.is_empty():
        longest = evidence.live["elapsed_ns"].max()
        too_short = isinstance(longest, int) and longest < STEP_NS
        return None, TOO_SHORT if too_short else ""
    room = (pl.col("machine_elapsed_ns") * pl.col("machine_cpus")).sum()
    foreign = (pl.col("machine_busy_ns") - pl.col("machine_own_ns")).sum()
    each = (
        rows.group_by("label", "setting", "phase", maintain_order=True)
        .agg(
            room=room,
            foreign=foreign,
            steal=pl.col("machine_steal_ns").sum(),
            elapsed=pl.col("machine_elapsed_ns").sum(),
            throttled=pl.col("machine_throttled_ns").fill_null(0).sum(),
            thermal=pl.col("machine_thermal_throttles").fill_null(0).sum(),
        )
        .filter(pl.col("room") >= LEAST_NS)
        .with_columns(
            foreign=pl.col("foreign") / pl.col("room"),
            steal=pl.col("steal") / pl.col("room"),
            throttled=pl.col("throttled") / pl.col("elapsed"),
        )
    )
    if each.is_empty():
        return None, TOO_SHORT
    for name, what, cause, fix in _SOURCES:
        most = 0.0 if name == "thermal" else evidence.needed("HC-31", f"{_SHARES[name]}")
        hit = each.filter(pl.col(name) > most)
        if not hit.is_empty():
            top = float(hit[name].max() or 0)  # type: ignore[arg-type]
            size = f"{top:.0f} times" if name == "thermal" else f"up to {percent(top)}"
            seen = f"{settings(keys(hit))}: {what} ({size})."
            return Finding(Verdict.FLAG, seen, cause, fix), ""
    worst = float(each["foreign"].max() or 0)  # type: ignore[arg-type]
    return None, f"others used at most {percent(max(worst, 0.0))} of the processors"


_SHARES = {
    "throttled": "throttled_share",
    "steal": "steal_share",
    "foreign": "foreign_cpu_share",
}
_SOURCES = (
    (
        "throttled",
        "the control group's CPU quota stopped savemark for part of the time",
        "The time measures the quota (cpu.max, docker --cpus), not the storage.",
        "Raise the quota, or use fewer streams than it has CPUs.",
    ),
    (
        "thermal",
        "processors slowed down for heat",
        "They ran below their speed.",
        "Cool the machine, and run again.",
    ),
    (
        "steal",
        "the hypervisor gave CPU time to other machines",
        "A neighbour on the same host was at work.",
        "Run again at another time, or on an instance with processors of its own.",
    ),
    (
        "foreign",
        "other processes and the kernel used the processors",
        "They took CPU time from codecs and checksums.",
        "Find them with `top`, stop them, and run again.",
    ),
)
