"""The one fact about the host that a calculation needs; the rest is only shown."""

from __future__ import annotations

import math

from savemark.records.head import Host


def cores(host: Host) -> int | None:
    """CPUs this process could use (affinity and cgroup quota), None where it is not recorded."""
    cpu, quota = host.cpu, host.limits.cgroup_cpus
    usable = cpu.available or cpu.logical or cpu.cores
    found = [n for n in (usable, math.ceil(quota) if quota else None) if n]
    return int(min(found)) if found else None
