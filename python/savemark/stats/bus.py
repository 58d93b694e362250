"""The PCIe links of a machine's GPUs: what bytes to and from them cannot pass."""

from __future__ import annotations

from dataclasses import dataclass

from savemark.records.head import Host


@dataclass(frozen=True, slots=True)
class Bus:
    """The fastest link of one GPU, bytes per second in one direction, before packet headers."""

    rate: float
    name: str


def bus(host: Host) -> Bus | None:
    """Return the fastest link of the GPUs in a host record; None where none is known.

    The fastest, as a record tells how many GPUs were used and not which: an upper bound stays one.
    """
    links = [(gpu.pcie.bytes_per_s, gpu.pcie) for gpu in host.gpus if gpu.pcie]
    known = [(rate, link) for rate, link in links if rate]
    if not known:
        return None
    rate, link = max(known, key=lambda pair: pair[0])
    return Bus(rate, f"PCIe {link.generation_max} × {link.width_max}")
