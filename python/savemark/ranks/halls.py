"""The halls in which the ranks of each node meet: made when the ranks have found each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import savemark._engine as engine

# `messages` lets all ranks meet by MPI, as they do where they share no memory.
MEET, MESSAGES = "SAVEMARK_MEET", "messages"


def open_for(
    rank: int,
    here: Sequence[int],
    sizes: tuple[int, int],
    exchange: Callable[[list[Any]], list[Any]],
) -> engine.Hall | None:
    """Return this rank's seat in the hall of its node; None where any rank finds none.

    Called by all ranks. `here` are those of this node, `sizes` the number of all ranks and that of
    the cores of this node's. Ranks in containers of their own do not see each other's memory.
    """
    hall: engine.Hall | None = None
    if rank == here[0] and os.environ.get(MEET) != MESSAGES:
        hall = _or_none(lambda: engine.Hall(len(here), *sizes))
    address = exchange([hall.address() if hall else None])[here[0]]
    if rank != here[0] and address is not None:
        hall = _or_none(lambda: engine.Hall.join(address, here.index(rank), len(here), *sizes))
    return hall if all(exchange([hall is not None])) else None


def _or_none(find: Callable[[], engine.Hall]) -> engine.Hall | None:
    try:
        return find()
    except OSError:
        return None
