"""Where each tensor lies in a saved state, so that as many bytes as possible go without a copy.

Direct I/O takes memory that starts on a page. A tensor that is long enough is laid at the same
place of a page as it has in memory: the engine cuts chunks along its pages, writes them straight
from the caller's memory, and copies only its first and last page. Short ones are packed. What is
on a GPU is copied in any case, and packed so that copies are fast.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

PAGE = 4096
# Shorter, a chunk of its own costs more than the copy that it saves.
ALONE = 1 << 20
# Where packed arrays start: what every allocator gives.
PACKED = 64
# Where arrays on GPUs start: what cudaMalloc gives, and copies like.
PACKED_ON_GPU = 256

# Where bytes on a GPU start in the data, the GPU, the address there, the length, and the owner.
Lent = tuple[int, int, int, int, Any]


@dataclass
class Loan:
    """Memory that the engine reads or fills, by where it starts in the data."""

    lent: list[tuple[int, Any]] = field(default_factory=list)
    on_gpus: list[Lent] = field(default_factory=list)
    # An address stays its own until the engine has ended.
    _owners: list[Any] = field(default_factory=list)

    def lend(self, start: int, gpu: int | None, address: int, nbytes: int, owner: Any) -> None:
        """Lend `nbytes` bytes at an address, of a GPU's memory or of this machine's."""
        if gpu is not None:
            self.on_gpus.append((start, gpu, address, nbytes, owner))
        else:
            self._owners.append(owner)
            flat = (ctypes.c_ubyte * nbytes).from_address(address)
            self.lent.append((start, memoryview(flat).cast("B")))


@dataclass
class Layout(Loan):
    """What is saved, one after the other: `bytes` long in all."""

    bytes: int = 0

    def add(self, gpu: int | None, address: int, nbytes: int, owner: Any) -> int:
        """Lay memory; return where it starts in the data."""
        if gpu is not None:
            start = -(-self.bytes // PACKED_ON_GPU) * PACKED_ON_GPU
        elif nbytes >= ALONE:
            start = self.bytes + (address - self.bytes) % PAGE
        else:
            start = -(-self.bytes // PACKED) * PACKED
        self.lend(start, gpu, address, nbytes, owner)
        self.bytes = start + nbytes
        return start

    def add_buffer(self, flat: memoryview) -> int:
        """Lay a buffer of bytes; return where it starts in the data."""
        if flat.nbytes == 0:
            return 0
        start = -(-self.bytes // PACKED) * PACKED
        self.lent.append((start, flat))
        self.bytes = start + flat.nbytes
        return start


def address_of(buffer: Any) -> int:
    """Return where a buffer lies that can be written to, and has no gaps; 0 of an empty one."""
    flat = memoryview(buffer)
    return ctypes.addressof(ctypes.c_ubyte.from_buffer(flat)) if flat.nbytes else 0
