"""One of several processes: what it saves alone is no checkpoint of all of them, and says so."""

from __future__ import annotations

import os
import sys
from typing import Literal

from savemark.errors import refused, usage
from savemark.launcher import Rank, launched

Ranks = Literal["independent"]
# How torchrun says which of how many this is; MPI's launchers and Slurm are in `launched`.
TORCHRUN = ("RANK", "WORLD_SIZE")


def of_this_process() -> Rank:
    """Return which process this is; 0 of 1 for one that was started alone."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return Rank(distributed.get_rank(), distributed.get_world_size())
    rank, world = (os.environ.get(name, "") for name in TORCHRUN)
    if rank.isdigit() and world.isdigit() and int(world) > 1:
        return Rank(int(rank), int(world))
    return launched()


def check(ranks: str | None, verb: str, example: str) -> Rank | None:
    """Return which of how many this is, None for one alone; refuse it unless that was meant.

    `verb` is what is about to be done, `example` how to say that it is meant.
    """
    if ranks not in (None, "independent"):
        raise usage(f"ranks: {ranks!r} is not known", example)
    own = of_this_process()
    if own.world < 2:
        return None
    if ranks is None:
        raise refused(
            f"this is rank {own.rank} of {own.world}: what a rank {verb}s is a checkpoint of its "
            "own, and after a failure ranks may go on from different steps",
            f"where one rank holds the whole state, or each stands alone, say so: {example}, with "
            "a place of its own for each rank that saves",
        )
    return own


def check_owner(own: Rank, owner: Rank | None, place: object) -> None:
    """Refuse to replace the checkpoint of another rank of as many."""
    if owner is not None and owner.world == own.world and owner.rank != own.rank:
        raise refused(
            f"{place} is of rank {owner.rank} of {owner.world}, and this is rank {own.rank}",
            f"give each rank a place of its own: rank-{own.rank}. Nothing was written",
        )
