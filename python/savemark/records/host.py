"""The one fact about the host that a calculation needs; the rest is only shown."""

from __future__ import annotations

import math
from typing import Any


def cores(host: dict[str, Any]) -> int | None:
    """CPUs this process could use (affinity and cgroup quota), None where it is not recorded."""
    cpu, limits = host.get("cpu") or {}, host.get("limits") or {}
    usable = cpu.get("available") or cpu.get("logical") or cpu.get("cores")
    quota = limits.get("cgroup_cpus")
    found = [n for n in (usable, math.ceil(quota) if quota else None) if n]
    return int(min(found)) if found else None
