"""Where each tensor lies in a saved state, so that as many bytes as possible go without a copy.

Direct I/O takes memory that starts on a page. A tensor that is long enough is laid at the same
place of a page as it has in memory: the engine cuts chunks along its pages, writes them straight
from the caller's memory, and copies only its first and last page. Short ones are packed. What is
on a GPU is copied in any case, and packed so that copies are fast.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from savemark.checkpoint import arrays
from savemark.checkpoint.devices import OnGpu

PAGE = 4096
# Shorter, a chunk of its own costs more than the copy that it saves.
ALONE = 1 << 20
# Where packed arrays start: what every allocator gives.
PACKED = 64
# Where arrays on GPUs start: what cudaMalloc gives, and copies like.
PACKED_ON_GPU = 256


# Where bytes on a GPU start in the data, the GPU, the address there, the length, and the owner.
Lent = tuple[int, int, int, int, Any]


def lend(offset: int, flat: OnGpu) -> Lent:
    """Return bytes on a GPU as the engine takes them."""
    return offset, flat.gpu, flat.address, flat.nbytes, flat.owner


@dataclass
class Layout:
    """Buffers and where they start; arrays that share their memory are laid once."""

    lent: list[tuple[int, Any]] = field(default_factory=list)
    on_gpus: list[Lent] = field(default_factory=list)
    bytes: int = 0
    _known: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, flat: Any) -> int:
        """Lay a flat buffer of bytes; return where it starts."""
        length = flat.nbytes
        if length == 0:
            return 0
        on_gpu = isinstance(flat, OnGpu)
        address = arrays.address(flat) if on_gpu or hasattr(flat, "__array_interface__") else 0
        key = (address, length)
        if address and key in self._known:
            return self._known[key]
        if on_gpu:
            start = -(-self.bytes // PACKED_ON_GPU) * PACKED_ON_GPU
        elif address and length >= ALONE:
            start = self.bytes + (address - self.bytes) % PAGE
        else:
            start = -(-self.bytes // PACKED) * PACKED
        # The list keeps the buffer alive: an address stays its own until the save has ended.
        if on_gpu:
            self.on_gpus.append(lend(start, flat))
        else:
            self.lent.append((start, flat))
        self.bytes = start + length
        self._known[key] = start
        return start
