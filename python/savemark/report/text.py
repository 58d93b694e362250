"""Numbers and lists as a reader sees them; one place decides the digits.

Speeds are GB/s (10⁹ bytes per second) everywhere on a screen, `savemark.units.gbs`; sizes are
binary, as they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from savemark import units

if TYPE_CHECKING:
    from savemark.records import Run
    from savemark.stats import Limit, PhaseStat, Spread

# The one rule for speeds, here for everything in a report.
gbs = units.gbs
# What holds the bytes of a target, by its file system; anything else is a disk.
MEMORY = ("tmpfs", "ramfs", "hugetlbfs")
SHARED = ("nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "9p", "virtiofs")


def counts(rate: float) -> str:
    """Operations per second with three significant digits: `35.2k`; a dash for none."""
    if not rate:
        return "–"
    step, unit = next(((s, u) for s, u in ((1e6, "M"), (1e3, "k")) if rate >= s), (1.0, ""))
    value = rate / step
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}{unit}"


def number(phase: PhaseStat, rate: float) -> str:
    """A speed of this phase in its unit, without it."""
    return counts(rate) if phase.counted else gbs(rate)


def speed(phase: PhaseStat) -> str:
    """How fast it is, with the unit: `1.91 GB/s`, `35.2k op/s`; its seconds if no more is known."""
    if not phase.speed:
        return f"{seconds(phase.seconds.median)} s"
    return f"{number(phase, phase.speed)} {phase.unit}"


def cpu(seconds_each: float) -> str:
    """CPU time of one operation, in µs."""
    micro = seconds_each * 1e6
    return f"{micro:.{2 if micro < 10 else 1 if micro < 100 else 0}f}" if micro else "–"


def seconds(value: float) -> str:
    """Seconds with the digits that a clock reading deserves."""
    return f"{value:.1f}" if value >= 100 else f"{value:.2f}" if value >= 10 else f"{value:.3f}"


def two(value: float) -> str:
    """A ratio or a cost with two decimals."""
    return f"{value:.2f}"


def percent(share: float | None) -> str:
    """`97 %`, or a dash where nothing was measured to compare with."""
    return "–" if share is None else f"{share * 100:.0f} %"


def binary(count: float) -> str:
    """Bytes as `1.5 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            whole = count >= 10 or count == int(count)
            return f"{count:.0f} {unit}" if whole else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def span(nanoseconds: float) -> str:
    """A latency in the unit that keeps it readable."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"


def medium(run: Run, label: str) -> str:
    """What a target is, for a sentence: `the disk`, `the bucket`, `memory`, `the file system`."""
    found = next((target for target in run.targets if target.label == label), None)
    if found is not None and "://" in found.target:
        return "the bucket"
    own, here = found.facts if found else {}, run.host.target
    kind = str(own.get("filesystem") or "") if own else (here and here.filesystem) or ""
    if kind in MEMORY:
        return "memory"
    return "the file system" if kind in SHARED or kind.startswith("fuse") else "the disk"


def binds(limit: Limit | None, of: str = "the disk") -> str:
    """The short name of what binds, for a narrow column: `disk`, `bucket`, `codec`, `memory`."""
    if limit is None:
        return ""
    short = limit.name.removeprefix("checked ").split()[0]
    return of.rsplit(maxsplit=1)[-1] if short == "disk" else short


def where(limit: Limit | None, of: str = "the disk") -> str:
    """What binds, as the end of a sentence: `97 % of …`; `of` is what the target is."""
    if limit is None:
        return "a limit that was not measured"
    if limit.name.startswith("codec "):  # codec zstd × 2 cores
        codec, cores = limit.name.removeprefix("codec ").split(" × ")
        return f"{codec} on {cores}"
    disks = dict.fromkeys(("disk write", "disk read", "checked disk read"), of)
    return {**disks, "memory copy": "memory"}.get(limit.name, limit.name)


def both(names: Sequence[str], most: int = 6) -> str:
    """`a, b and c`, or `a, b and 4 more`."""
    shown = list(names[:most])
    if len(names) > most:
        shown = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def interval(low: float, high: float) -> str:
    """Two rates as `[1.93 2.04]`."""
    return f"[{gbs(low)} {gbs(high)}]"


def kinds(spreads: Sequence[Spread]) -> str:
    """What the brackets of a column mean, one word if all its rows agree."""
    found = list(dict.fromkeys(each.kind for each in spreads))
    return found[0] if len(found) == 1 else "95 % or range"


def sold(count: float) -> str:
    """Bytes as storage is sold: `5.68 TB`."""
    for step, unit in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if count >= step:
            return f"{count / step:.3g} {unit}"
    return f"{count:.0f} B"


def planned(time: float) -> str:
    """A time as people plan with: `19 min`, `3.1 h`, `42 s`, `8 ms`."""
    if time >= 48 * 3600:
        return f"{time / 86400:.1f} d"
    if time >= 2 * 3600:
        return f"{time / 3600:.1f} h"
    if time >= 120:
        return f"{time / 60:.1f} min" if time < 1200 else f"{time / 60:.0f} min"
    if time >= 1 or time == 0:
        return f"{time:.3g} s"
    return f"{time * 1000:.3g} ms"


def tenth(share: float) -> str:
    """`97.3 %`."""
    return f"{share * 100:.1f} %"


def needed_gbs(rate: float) -> str:
    """A bandwidth to buy, in GB/s."""
    value = rate / 1e9
    return f"{value:,.0f}" if value >= 20 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def duration(seconds: float) -> str:
    """A duration in the unit that keeps it readable; the page's script writes the same."""
    for unit, size, most in (("s", 1, 60), ("min", 60, 3600), ("h", 3600, 129600)):
        if seconds < most:
            return f"{_significant(seconds / size, 2 if unit == 's' else 3)} {unit}"
    return f"{_significant(seconds / 86400, 3)} d"


def _significant(value: float, count: int) -> str:
    text = f"{value:#.{count}g}".rstrip(".")
    return f"{float(text):.0f}" if "e" in text else text


def tolerance(share: float) -> str:
    """A limit as people set it: `5 %`, `2.5 %`."""
    return f"{share * 100:.0f} %" if share >= 0.1 else f"{share * 100:.2g} %"


def change(ratio: float) -> str:
    """`+3.2 %` for a ratio of 1.032."""
    share = (ratio - 1) * 100
    return f"{share:+.0f} %" if abs(share) >= 100 else f"{share:+.1f} %"


def p_text(p: float) -> str:
    """A p value with the digits that matter."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def four(value: float) -> str:
    """Four significant digits, and thousands in full."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def about(time: float) -> str:
    """`40 s`, `3 min`, `2.1 h`."""
    if time < 90:
        return f"{max(1, round(time))} s"
    return f"{round(time / 60)} min" if time < 5400 else f"{time / 3600:.1f} h"
