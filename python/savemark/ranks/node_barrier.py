"""The barrier of the ranks of each node, in shared memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import savemark._engine as engine

# `messages`: all barriers go by MPI, as where ranks share no memory.
MEET, MESSAGES = "SAVEMARK_MEET", "messages"


def open_for(
    rank: int,
    here: Sequence[int],
    size: int,
    cores: int,
    allgather: Callable[[list[Any]], list[Any]],
) -> engine.Hall | None:
    """Return this rank's barrier of its node; None where any rank finds none.

    Called by all ranks. `here` are those of this node, which run on `cores`; `size` is the number
    of all. Ranks in containers of their own do not see each other's memory.
    """
    sizes = len(here), size, cores
    barrier: engine.Hall | None = None
    if rank == here[0] and os.environ.get(MEET) != MESSAGES:
        barrier = _or_none(lambda: engine.Hall(*sizes))
    address = allgather([barrier.address() if barrier else None])[here[0]]
    if rank != here[0] and address is not None:
        barrier = _or_none(lambda: engine.Hall.join(address, here.index(rank), *sizes))
    return barrier if all(allgather([barrier is not None])) else None


def _or_none(find: Callable[[], engine.Hall]) -> engine.Hall | None:
    try:
        return find()
    except OSError:
        return None
