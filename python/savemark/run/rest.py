"""Whether the machine is at rest before it is measured, and the disk before each trial."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from savemark.units import rate_text

SECTOR = 512
# A disk is at rest when it was written to no more for so long; somebody else may never stop.
STILL_S, MOST_S = 0.02, 0.3
# How long the machine is looked at, and what counts as a disturbance.
LOOK_S = 0.5
BUSY_CORE, STOLEN, DEVICE_BYTES_PER_S = 0.2, 0.05, 10e6


def wait(place: str) -> None:
    """Wait until nothing is written to the disk below a directory, a third of a second at most.

    What the trial before left in caches would be written during the next one.
    """
    disk = disk_of(place)
    if disk is None:
        return
    end, before = time.monotonic() + MOST_S, -1
    while before != (now := _sectors(disk)[1]) and time.monotonic() < end:
        before = now
        time.sleep(STILL_S)


def disk_of(place: str) -> Path | None:
    """Return where the kernel counts for the disk below a directory; None where it does not."""
    if "://" in place:
        return None
    try:
        number = Path(place).stat().st_dev
    except OSError:
        return None  # the trial will say what is wrong with it
    file = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat")
    return file if file.exists() else None


@dataclass(frozen=True)
class _Look:
    """What the kernel has counted at one moment: ticks of processors, sectors of disks."""

    stolen: int
    total: int
    processes: Mapping[int, int]
    disks: Mapping[str, tuple[int, int]]


def disturbance(places: Mapping[str, str], seconds: float = LOOK_S) -> str | None:
    """Look at the machine for a moment; return what disturbs a measurement, None where nothing.

    `places` are directories (or URLs) by label. This process and its children do not count.
    """
    before = _look(places)
    time.sleep(seconds)
    after = _look(places)
    return _device(before, after, seconds) or _stolen(before, after) or _process(before, after)


def _device(before: _Look, after: _Look, seconds: float) -> str | None:
    for label, then in before.disks.items():
        read, written = (
            (b - a) * SECTOR / seconds for a, b in zip(then, after.disks[label], strict=True)
        )
        if max(read, written) > DEVICE_BYTES_PER_S:
            verb, rate = ("writes", written) if written >= read else ("reads", read)
            return f"something {verb} {rate_text(rate)} on the disk of {label}"
    return None


def _stolen(before: _Look, after: _Look) -> str | None:
    share = (after.stolen - before.stolen) / max(after.total - before.total, 1)
    if share <= STOLEN:
        return None
    return f"the hypervisor gave {share:.0%} of the processors to other machines".replace("%", " %")


def _process(before: _Look, after: _Look) -> str | None:
    ran = {pid: now - before.processes.get(pid, now) for pid, now in after.processes.items()}
    pid = max(ran, key=lambda each: ran[each], default=0)
    cores = len(os.sched_getaffinity(0))
    total = max(after.total - before.total, 1)
    share = ran.get(pid, 0) * cores / total
    if share <= BUSY_CORE:
        return None
    return f"process {_name(pid)} ({pid}) uses {share:.0%} of a core".replace("%", " %")


def _look(places: Mapping[str, str]) -> _Look:
    ticks = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    disks = {label: disk for label, place in places.items() if (disk := disk_of(place))}
    return _Look(
        stolen=ticks[7],
        total=sum(ticks),
        processes=dict(_processes()),
        disks={label: _sectors(disk) for label, disk in disks.items()},
    )


def _processes() -> list[tuple[int, int]]:
    """Return the processor ticks of every process but this one and its children."""
    own, ticks = os.getpid(), []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if own not in (int(folder.name), int(fields[1])):
            ticks.append((int(folder.name), int(fields[11]) + int(fields[12])))
    return ticks


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "?"


def _sectors(disk: Path) -> tuple[int, int]:
    """Return the sectors that were read and written so far."""
    fields = disk.read_text().split()
    return int(fields[2]), int(fields[6])
