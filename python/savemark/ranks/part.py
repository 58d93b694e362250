"""What every rank does in a trial: its part of the work, and bringing the parts together."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import savemark._engine as engine
from savemark.errors import from_exception
from savemark.ranks import merge
from savemark.ranks.clocks import Offset, compare
from savemark.ranks.collective import SILENT_S, Collective, Failure, worse
from savemark.ranks.nodes import placement
from savemark.ranks.world import World

Json = dict[str, Any]
Part = tuple[Json | None, Failure | None]

TIMEOUT_S, TIMEOUT = 120.0, "SAVEMARK_PATIENCE"
# Slower than this no storage is waited for; one item is as much work as so many bytes.
LEAST_BYTES_PER_S, ITEM_BYTES = 4 << 20, 100 << 10


def timeout_s(trial: Json, ranks: int) -> float:
    """Return for how long a rank waits for the others where all but one have nothing to do.

    It grows with what a phase does: bytes at a few MiB/s, and the time that it is given.
    """
    own = float(os.environ.get(TIMEOUT, TIMEOUT_S))
    geometry = [trial.get(name) for name in ("block_size", "segments", "workers")]
    per_rank = 1
    for factor in geometry:
        per_rank *= int(factor or 0)
    files = int(trial.get("files") or 1) * int(trial.get("workers") or 1) * ranks
    copies = files if trial.get("files") else 1
    moved = max(per_rank * ranks, int(trial.get("size") or 0) * copies)
    moved += int(trial.get("items") or 0) * (ITEM_BYTES + int(trial.get("file_size") or 0))
    given = sum(float(trial.get(name) or 0) for name in ("duration", "phase_deadline"))
    return own + moved / LEAST_BYTES_PER_S + 10 * given


def silent_s() -> float:
    """Return after how much silence a rank counts as lost; never more than the timeout."""
    return min(SILENT_S, float(os.environ.get(TIMEOUT, TIMEOUT_S)))


class Work:
    """One trial on one rank."""

    def __init__(self, world: World, order: Json) -> None:
        chosen = [tuple(node) for node in order["members"]]
        self.world, self.chosen = world, chosen
        self.members = [rank for node in chosen for rank in node]
        self.leaders = [node[0] for node in chosen]
        self.order = order
        self.collective = Collective(
            world, self.members, order["number"], order["timeout_s"], order["silent_s"]
        )
        self._node_barrier = self.collective.enter(chosen)

    def run(
        self, one: engine.Engine, moved: Callable[[Json], object]
    ) -> tuple[Part, list[Offset], list[Offset]] | None:
        """Do this rank's part; return what all have done on the first rank, None elsewhere."""
        before = self._clocks()
        mine = self._part(one, moved)
        if self.world.lost:
            return mine, [], []
        whole: Part | None = self.collective.finish(mine, _both)
        after = self._clocks()
        return None if whole is None else (whole, before, after)

    def _clocks(self) -> list[Offset]:
        if self.world.rank in self.leaders:
            return compare(self.world, self.leaders)
        return []

    def _part(self, one: engine.Engine, moved: Callable[[Json], object]) -> Part:
        """Run the engine; why it failed is known to all, unless it failed behind the end."""
        collective = self.collective
        where = placement(self.chosen, collective.here)

        def tick(progress: Json) -> None:
            moved(progress)
            collective.moved(progress)

        try:
            trial = json.dumps(self.order["trial"])
            meet = collective.allgather, self._node_barrier
            text = one.run(trial, tick, None, json.dumps(where), *meet)
        except Exception as raised:
            if collective.failure is not None:
                return None, collective.failure
            return None, self._failure(raised)
        node = next(n for n, ranks in enumerate(self.chosen) if self.world.rank in ranks)
        boot = self.world.all[self.world.rank]["boot"]
        return merge.prepare(json.loads(text), node, boot, collective.left()), None

    def _failure(self, raised: BaseException) -> Failure:
        """Return what went wrong here alone, such as in the removal of files."""
        error = from_exception(raised)
        who = self.world.name(self.world.rank)
        if error is None:
            return Failure(who, "failed", f"a bug in savemark: {raised!r}", None)
        return Failure(who, error.kind, error.message, error.hint)


def _both(one: Part, other: Part) -> Part:
    """Bring two neighbours' parts together; a failure of one is that of both."""
    failure = worse(one[1], other[1])
    if failure is not None or one[0] is None or other[0] is None:
        return None, failure
    return merge.merge(one[0], other[0]), None
