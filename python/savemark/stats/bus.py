"""The PCIe links of a machine's GPUs: what bytes to and from them cannot pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Bus:
    """The fastest link of one GPU, bytes per second in one direction, before packet headers."""

    rate: float
    name: str


def bus(host: Mapping[str, Any]) -> Bus | None:
    """Return the fastest link of the GPUs in a host record; None where none is known.

    The fastest, as a record tells how many GPUs were used and not which: an upper bound stays one.
    """
    links = [each.get("pcie") or {} for each in host.get("gpus") or []]
    known = [link for link in links if link.get("bytes_per_s")]
    if not known:
        return None
    top = max(known, key=lambda link: int(link["bytes_per_s"]))
    name = f"PCIe {top.get('generation_max')} × {top.get('width_max')}"
    return Bus(float(top["bytes_per_s"]), name)
