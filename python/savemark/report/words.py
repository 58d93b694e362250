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
