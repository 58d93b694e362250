"""The collectives of the ranks of one trial, and which rank is missing where one does not end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import savemark._engine as engine
from savemark.errors import RankLost, SavemarkError
from savemark.ranks.world import HEARTBEAT, SOON_S, STOP, TimedOut, World

Json = dict[str, Any]
# A rank that gave no sign of life for so long is lost; one gives it every second.
SILENT_S, HEARTBEAT_S = 30.0, 1.0
# So many signs of life in a second are no burden for the first rank.
HEARTBEATS_PER_S = 200
# Places that the engine names.
START, LEAVING, END = "the start of ", "leaving", "the end"
# What ends a trial for all: the worse one is said.
WORST = ("corrupt", "refused", "usage", "failed", "interrupted")


@dataclass(frozen=True)
class Failure:
    """Why a rank goes no further."""

    who: str
    kind: str
    message: str
    hint: str | None
    lost: bool = False  # it cannot say so itself

    def error(self) -> SavemarkError:
        """Return it as the error of the trial."""
        if self.lost:
            return RankLost(f"{self.who}: {self.message}", self.hint)
        message = self.message if self.kind == "interrupted" else f"{self.who}: {self.message}"
        return SavemarkError(self.kind, message, self.hint)  # type: ignore[arg-type]


def worse(one: Failure | None, other: Failure | None) -> Failure | None:
    """Return the failure that matters more; of two alike that of the lower rank."""
    if one is None or other is None:
        return one or other
    return other if WORST.index(other.kind) < WORST.index(one.kind) else one


@dataclass(frozen=True)
class Arrival:
    """What ranks bring to a collective: where they are, their numbers, and why they stop."""

    at: str
    numbers: list[int]
    failure: Failure | None = None

    def with_next(self, other: Arrival) -> Arrival:
        """Return that of both; the other ranks come next."""
        failure = worse(self.failure, other.failure)
        if failure is None and self.at != other.at:
            why = f"ranks meet at two places ({self.at}; {other.at}); this is a bug in savemark"
            failure = Failure("the ranks", "failed", why, None)
        return replace(self, numbers=self.numbers + other.numbers, failure=failure)


@dataclass(frozen=True)
class NodeArrival:
    """That of the ranks of a node; `apart` if they are at several places, or one has failed."""

    at: str
    numbers: list[int]
    apart: bool

    def with_next(self, other: NodeArrival) -> NodeArrival:
        """Return that of both; the other nodes come next."""
        apart = self.apart or other.apart or self.at != other.at
        return NodeArrival(self.at, self.numbers + other.numbers, apart)


class TrialOver(Exception):  # noqa: N818
    """The trial is over: some rank has failed."""


class Collective:
    """The ranks that run one trial, seen from one of them."""

    def __init__(
        self, world: World, members: Sequence[int], trial: int, timeout_s: float, silent_s: float
    ) -> None:
        self.world, self.members, self.trial = world, list(members), trial
        self.here = self.members.index(world.rank)
        self.timeout_s, self.silent_s = timeout_s, silent_s
        self.failure: Failure | None = None  # as all know it
        self.stopping = False  # somebody has pressed Ctrl-C
        self._left: dict[str, int] = {}
        self._place = "its preparation"
        self._met_s = self._heartbeat_s = time.monotonic()
        self._heard = dict.fromkeys(self.members, (self._met_s, self._place))
        self._stopped = False
        self._broken = False  # this rank left a meeting that others are still at
        self._parted = False  # whoever is done gives no signs of life any more
        self._node_barrier: engine.Hall | None = None
        self._leaders: list[int] = []

    def enter(self, nodes: Sequence[Sequence[int]]) -> engine.Hall | None:
        """Begin the trial at the barrier of this node, if there is one; return it.

        `nodes` are the members node by node. Without a barrier all goes by messages.
        """
        self._node_barrier = self.world.node_barrier
        if self._node_barrier is not None:
            mine = next(ranks for ranks in nodes if self.world.rank in ranks)
            self._leaders = [ranks[0] for ranks in nodes]
            least, times = self._limit()
            self._node_barrier.begin(len(mine), least, times, len(nodes) > 1, self)
            self._node_barrier.say(self._place)
        return self._node_barrier

    def allgather(
        self, at: str, numbers: list[int], failure: tuple[str, str, str | None] | None
    ) -> list[int]:
        """Gather all ranks' numbers by messages; `TrialOver` where any rank has failed."""
        mine = None
        if failure is not None:
            mine = Failure(self.world.name(self.world.rank), *failure)
            self.failing(mine.kind)
        self._set_place(f"waiting at {at}")
        self._broken = True
        merged = self._gather(Arrival(at, numbers, mine), Arrival.with_next)
        answer: Arrival = self._broadcast(merged)
        self._broken = False
        self._parted = answer.failure is not None or at == END
        if answer.failure is not None:
            self.failure = answer.failure
            raise TrialOver(answer.failure.message)
        if at.startswith(START):
            self._barrier(self.members)
            self._left[at.removeprefix(START)] = time.monotonic_ns()
        self._met_s = time.monotonic()
        self._set_place(f"behind {at}")
        return answer.numbers

    def beyond(self, at: str, numbers: list[int], apart: bool) -> list[int] | None:
        """Meet the other nodes for all ranks of this one; None where all must meet by messages.

        `numbers` are those of this node; `apart` that its ranks are not at one place, or that one
        has failed.
        """
        if at == LEAVING and not apart:
            self._barrier(self._leaders)
            return []
        mine = NodeArrival(at, numbers, apart)
        merged = self._bounded(self.world.gather, self._leaders, mine, NodeArrival.with_next)
        whole: NodeArrival = self._bounded(self.world.broadcast, self._leaders, merged)
        return None if whole.apart else whole.numbers

    def late(self, limit_s: float) -> None:
        """Say who has not come to a meeting of this node."""
        self._broken = True
        self._lost(f"did not come within {limit_s:.0f} s")

    def failing(self, kind: str) -> None:
        """Spare the others the rest of a phase that no longer counts."""
        if kind != "interrupted":
            for rank in self.members:
                if rank != self.world.rank:
                    self.world.send(rank, STOP, self.trial)

    def stop(self) -> None:
        """Wait for nobody any more: the user has asked for an end."""
        self.stopping = True
        self._leave()

    def left(self) -> dict[str, int]:
        """Return when this rank left the start of each phase, by its own clock, in ns."""
        return self._left | dict(self._node_barrier.left_ns() if self._node_barrier else ())

    def finish(self, part: Any, merge: Any) -> Any:
        """Bring together what is left of the trial: the first rank gets the whole."""
        if self._broken or self.stopping:
            raise TrialOver("a meeting was left")
        self._set_place("the end of the trial")
        return self._gather(part, merge)

    def moved(self, _progress: Json) -> None:
        """Give a sign of life while the engine works; `TrialOver` if another rank has failed."""
        self._heartbeat()
        self._judge()
        while message := self.world.take(STOP):
            self._stopped = self._stopped or message[1] == self.trial
        if self._stopped:
            raise TrialOver("another rank has failed")

    def _gather(self, mine: Any, merge: Any) -> Any:
        return self._bounded(self.world.gather, self.members, mine, merge)

    def _broadcast(self, data: Any) -> Any:
        return self._bounded(self.world.broadcast, self.members, data)

    def _barrier(self, among: list[int]) -> None:
        def share(members: list[int], here: int, *_: Any) -> None:
            self.world.barrier(members, here, self._look)

        self._bounded(share, among)

    def _bounded(self, share: Any, among: list[int], *what: Any) -> Any:
        """Wait as long as such a trial may take; the first rank then says who is missing."""
        local = self._node_barrier
        met_s = local.since_met_s() if local else time.monotonic() - self._met_s
        least_s, times = self._limit()
        limit_s = least_s + times * met_s
        try:
            return share(among, among.index(self.world.rank), *what, limit_s, self._look)
        except TimedOut:
            raise self._lost(f"did not come within {limit_s:.0f} s") from None

    def _limit(self) -> tuple[float, float]:
        """Return how long a meeting is waited for: seconds, and times the time since the last."""
        if self.here == 0:
            return self.timeout_s, 10.0
        # Only the first one knows who gave signs of life, so it is the first to give up.
        return 2 * self.timeout_s + 2 * self.silent_s + SOON_S, 20.0

    def _set_place(self, place: str) -> None:
        self._place = place
        if self._node_barrier is not None:
            self._node_barrier.say(place)

    def _where(self) -> str:
        return self._place if self._node_barrier is None else self._node_barrier.place()

    def _leave(self) -> None:
        if self._node_barrier is not None:
            self._node_barrier.leave()

    def _look(self) -> None:
        """Look at the others while waiting for one of them."""
        if self.stopping:
            raise TrialOver("interrupted")
        self._heartbeat()
        self._judge()

    def _heartbeat(self) -> None:
        now = time.monotonic()
        if now - self._heartbeat_s < max(HEARTBEAT_S, len(self.members) / HEARTBEATS_PER_S):
            return
        self._heartbeat_s = now
        if self.here:
            self.world.send(self.members[0], HEARTBEAT, (self.trial, self._where()))
        else:
            self._heard[self.world.rank] = (now, self._where())

    def _judge(self) -> None:
        """Hear who lives, and end everything if somebody does not.

        The first rank judges all others, and the second one the first.
        """
        try:
            self.world.check_lead(self.silent_s)
        except TimedOut:
            raise self._lost(f"gave no sign of life for {self.silent_s:.0f} s") from None
        if self.here or self._parted or self._where() == f"behind {END}":
            return
        now = time.monotonic()
        while message := self.world.take(HEARTBEAT):
            rank, (trial, place) = message
            if trial == self.trial:
                self._heard[rank] = (now, place)
        silent_s = self.silent_s + len(self.members) / HEARTBEATS_PER_S
        if any(now - heard > silent_s for heard, _ in self._heard.values()):
            raise self._lost(f"gave no sign of life for {silent_s:.0f} s")

    def _lost(self, what: str) -> SavemarkError:
        """Return the error that names who is missing; nobody can be met any more."""
        self.world.lost = True
        self._leave()
        now = time.monotonic()
        if self.here:
            missing = self.members[:1]  # it would have named another one
        else:
            silent = [r for r, (heard, _) in self._heard.items() if now - heard > self.silent_s]
            mine = self._where()
            elsewhere = [r for r, (_, place) in self._heard.items() if place != mine]
            missing = silent or elsewhere or self.members[1:]
        names = ", ".join(self.world.name(rank) for rank in missing[:4])
        names += f" and {len(missing) - 4} more" if len(missing) > 4 else ""
        where = f" (last seen: {self._heard[missing[0]][1]})" if self.here == 0 else ""
        self.failure = Failure(
            names,
            "failed",
            f"{what}{where}; all ranks are ended",
            "see whether its node and its storage answer, then finish the run with --resume; "
            "SAVEMARK_PATIENCE sets the seconds to wait",
            lost=True,
        )
        return self.failure.error()
