"""The halls in which the ranks of each node meet: made when the ranks have found each other."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import savemark._engine as engine

if TYPE_CHECKING:
    from savemark.ranks.world import World

# `messages` lets all ranks meet by MPI, as they do where they share no memory.
MEET, MESSAGES = "SAVEMARK_MEET", "messages"


def open_for(world: World) -> engine.Hall | None:
    """Return this rank's seat in the hall of its node; None where any rank finds none.

    Called by all ranks. Ranks in containers of their own do not see each other's memory.
    """
    mine = next(ranks for ranks in world.nodes.ranks.values() if world.rank in ranks)
    cores = reduce(or_, (world.all[rank]["cores"] for rank in mine))
    sizes = (len(mine), world.size, cores.bit_count())
    hall: engine.Hall | None = None
    if world.rank == mine[0] and os.environ.get(MEET) != MESSAGES:
        hall = _or_none(lambda: engine.Hall(*sizes))
    addresses = world.exchange([hall.address() if hall else None])
    address = addresses[mine[0]]
    if world.rank != mine[0] and address is not None:
        hall = _or_none(lambda: engine.Hall.join(address, mine.index(world.rank), *sizes))
    return hall if all(world.exchange([hall is not None])) else None


def _or_none(find: Callable[[], engine.Hall]) -> engine.Hall | None:
    try:
        return find()
    except OSError:
        return None
