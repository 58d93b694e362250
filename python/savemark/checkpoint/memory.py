"""Where an array lies in memory: addresses and strides in bytes, whatever library made it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

Ints = tuple[int, ...]


def strides_of(shape: Ints, item: int) -> Ints:
    """Return the strides of an array whose elements lie together, the last axis first (C)."""
    strides, step = [], item
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def bounds(shape: Ints, strides: Ints, item: int) -> tuple[int, int]:
    """Return where the bytes of an array begin and end, counted from its first element."""
    low, high = 0, item
    for size, stride in zip(shape, strides, strict=True):
        if size == 0:
            return 0, 0
        if stride > 0:
            high += (size - 1) * stride
        else:
            low += (size - 1) * stride
    return low, high


def same_strides(shape: Ints, one: Ints, other: Ints) -> bool:
    """Tell whether strides lead to the same places: along an axis of one they lead nowhere."""
    if one == other or 0 in shape:
        return True
    return all(size == 1 or a == b for size, a, b in zip(shape, one, other, strict=True))


@dataclass(frozen=True)
class Memory:
    """The place of an array: on a GPU or, None, of this machine; `owner` is what keeps it."""

    gpu: int | None
    first: int
    shape: Ints
    strides: Ints
    item: int
    owner: Any

    @cached_property
    def low(self) -> int:
        """The address of its lowest byte."""
        return self.first + bounds(self.shape, self.strides, self.item)[0]

    @cached_property
    def high(self) -> int:
        """The address after its highest byte."""
        return self.first + bounds(self.shape, self.strides, self.item)[1]

    @cached_property
    def is_dense(self) -> bool:
        """Whether its elements fill its bytes, each once, in the order of whatever axes."""
        if 0 in self.shape:
            return True
        step = self.item
        for stride, size in sorted(zip(self.strides, self.shape, strict=True)):
            if size != 1:
                if stride != step:
                    return False
                step *= size
        return True

    @property
    def is_injective(self) -> bool:
        """Whether no two elements are known to share a byte."""
        reach = self.item
        pairs = zip(self.strides, self.shape, strict=True)
        for stride, size in sorted((abs(stride), size) for stride, size in pairs):
            if size > 1:
                if stride < reach:
                    return False
                reach = stride * size
        return True

    def is_same(self, other: Memory) -> bool:
        """Tell whether both are the same elements."""
        mine, others = (self.gpu, self.first, self.shape), (other.gpu, other.first, other.shape)
        alike = mine == others and self.item == other.item
        return alike and same_strides(self.shape, self.strides, other.strides)


class Ranged(Protocol):
    """What lies in a range of bytes."""

    @property
    def low(self) -> int:
        """Where it begins."""

    @property
    def high(self) -> int:
        """Where it ends."""


T = TypeVar("T", bound=Ranged)


def clusters(found: Iterable[T]) -> list[list[T]]:
    """Group what overlaps, directly or through others; what is empty is left out."""
    groups: list[list[T]] = []
    end = 0
    for one in sorted((each for each in found if each.low < each.high), key=lambda e: e.low):
        if groups and one.low < end:
            groups[-1].append(one)
            end = max(end, one.high)
        else:
            groups.append([one])
            end = one.high
    return groups


def padding(places: Sequence[tuple[int, int]]) -> int | None:
    """Return how many bytes before places make each a multiple of its element's bytes.

    `places` are (offset, bytes of an element). None where nothing does: torch has no such tensors.
    """
    fits = (pad for pad in range(64) if all((pad + at) % item == 0 for at, item in places))
    return next(fits, None)
