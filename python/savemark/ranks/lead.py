"""The first rank: gives the orders, and turns what all have done into one record."""

from __future__ import annotations

import atexit
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import savemark._engine as engine
from savemark.errors import EXIT_CODES, RankLost, usage
from savemark.ranks import merge
from savemark.ranks.collective import Collective, TrialOver
from savemark.ranks.nodes import Nodes
from savemark.ranks.part import Work, silent_s, timeout_s
from savemark.ranks.world import TimedOut, World
from savemark.signals import stopping
from savemark.study.keys import split_ours

Json = dict[str, Any]


class Lead:
    """Runs trials on all ranks, or on those that a trial asks for."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._trials = 0
        self._in_trial = False  # the others wait for this rank where no order is looked for
        versions = set(world.allgather([engine.version()]))
        if len(versions) > 1:
            names = ", ".join(sorted(versions))
            raise usage(f"the ranks have different savemarks: {names}", "install one on all nodes")

    @property
    def nodes(self) -> Nodes:
        """Which ranks are on which node."""
        return self._world.nodes

    def facts(self) -> Json:
        """Return what a reader wants to know of them."""
        return {
            "count": self._world.size,
            "nodes": list(self.nodes.ranks),
            "mpi": self._world.library,
            "meet": self._world.meet,
        }

    def as_json(self) -> Json:
        """Return what is kept of the ranks in `run.json`."""
        hosts = [
            {"node": name, "ranks": list(ranks), "pids": [self._world.all[r]["pid"] for r in ranks]}
            for name, ranks in self.nodes.ranks.items()
        ]
        return {"count": self._world.size, "nodes": hosts, "meet": self._world.meet}

    def run(self, one: engine.Engine, trial: Json, moved: Callable[[Json], object]) -> Json:
        """Run one trial; return the record of all its ranks."""
        own, ours = split_ours(trial)
        self._trials += 1
        order = {
            "do": "trial",
            "number": self._trials,
            # The first one leads; of those it leads to, any may be chosen.
            "members": self.nodes.choose(trial),
            "trial": own,
            "timeout_s": timeout_s(own, self.nodes.count),
            "silent_s": silent_s(),
        }
        work = Work(self._world, order)
        self._in_trial = True
        try:
            self._world.order(order)
            with _noticing(work.collective):
                done = work.run(one, _all_ranks(moved, len(work.members)))
        except TimedOut as error:
            self._world.lost = True
            raise RankLost(f"a rank does not answer: {error}") from None
        except TrialOver:
            raise KeyboardInterrupt from None  # nothing else ends a trial in this way
        self._in_trial = False
        assert done is not None
        (record, failure), before, after = done
        if failure is not None:
            raise failure.error()
        assert record is not None
        names = [list(self.nodes.ranks)[at] for at in self._places(work)]
        whole = merge.complete(record, before, after, names)
        # Of more nodes they would be most of the record; what follows from them is in each phase.
        if len(before) <= merge.LINES:
            whole["clocks"] = {
                "before": [[offset.ns, offset.error_ns] for offset in before],
                "after": [[offset.ns, offset.error_ns] for offset in after],
            }
        whole["trial"] = {**whole["trial"], "ranks": len(work.members), **ours}
        return whole

    def rest(self) -> None:
        """Have the others wait without looking at this rank: drawing a report it may be silent."""
        if not self._world.lost:
            self._world.order({"do": "rest"})

    def dismiss(self) -> None:
        """Let the others end; where one does not answer, all are ended when this process ends."""
        if self._in_trial and not self._world.lost:
            # Interrupted: the others are in the middle of the trial, and end as this process does.
            self._world.lost, self._world.code = True, EXIT_CODES["interrupted"]
        if self._world.lost:
            atexit.register(self._world.abort)
            return
        self._world.order({"do": "end"})
        self._world.flush()

    def _places(self, work: Work) -> list[int]:
        """Return the number of each node that has a part, among all nodes."""
        groups = list(self.nodes.ranks.values())
        return [
            next(at for at, ranks in enumerate(groups) if lead in ranks) for lead in work.leaders
        ]


def _all_ranks(moved: Callable[[Json], object], count: int) -> Callable[[Json], object]:
    """Show the progress of one rank as that of all: they have as much to do."""

    def shown(progress: Json) -> None:
        sizes = {k: progress[k] * count for k in ("done_bytes", "total_bytes")}
        moved({**progress, **sizes})

    return shown


@contextmanager
def _noticing(collective: Collective) -> Iterator[None]:
    """Let whoever waits for other ranks stop when the user asks for an end."""
    before: dict[int, Any] = {number: signal.getsignal(number) for number in stopping()}

    def notice(number: int, frame: FrameType | None) -> None:
        collective.stop()
        for other, handler in before.items():
            signal.signal(other, handler)
        handler = before[number]
        if callable(handler):
            handler(number, frame)
        else:
            raise KeyboardInterrupt

    for number in before:
        signal.signal(number, notice)
    try:
        yield
    finally:
        if not collective.stopping:
            for number, handler in before.items():
                signal.signal(number, handler)
