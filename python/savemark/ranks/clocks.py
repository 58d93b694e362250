"""How far the clocks of the nodes are apart, by ping-pong; and who started when, by them.

No duration is a difference of two nodes' clocks. They are compared for one thing alone: how far
apart in time the ranks started a phase.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from savemark.ranks.world import CLOCK, LEAST_PAUSE_S, SOON_S, World

# The quickest of so many answers: its way took the least time, so that least is unknown.
ROUNDS = 12


@dataclass(frozen=True)
class Offset:
    """A node's monotonic clock minus that of another node; true to ± `error_ns`."""

    ns: int
    error_ns: int


def compare(world: World, leaders: list[int]) -> list[Offset]:
    """Compare the clocks of the first ranks of all nodes; the list is complete on the first one.

    A clock is read at some time between question and answer: in the middle of the two, with half of
    the way as the error (Cristian 1989). Nodes ask each other along a tree, so that a thousand take
    as long as ten questions after each other; what is between adds up, and so do the errors.
    Every leader calls this.
    """
    here, mask = leaders.index(world.rank), 1
    offsets = [Offset(0, 0)]  # of the nodes below this one, itself first
    while mask < len(leaders):
        if here & mask:
            _answer(world, leaders[here - mask], offsets)
            return []
        if here + mask < len(leaders):
            child = leaders[here + mask]
            way = _ask(world, child)
            _, below = world.wait(child, CLOCK, SOON_S)
            offsets += [Offset(way.ns + o.ns, way.error_ns + o.error_ns) for o in below]
        mask <<= 1
    return offsets


def _answer(world: World, asker: int, found: list[Offset]) -> None:
    """Tell the clock as often as it is asked for, then what is known of the nodes below."""
    for _ in range(ROUNDS):
        world.wait(asker, CLOCK, SOON_S, pause_s=LEAST_PAUSE_S)
        world.send(asker, CLOCK, time.monotonic_ns())
    world.send(asker, CLOCK, found)


def _ask(world: World, leader: int) -> Offset:
    answers = []
    for _ in range(ROUNDS):
        asked = time.monotonic_ns()
        world.send(leader, CLOCK, None)
        _, theirs = world.wait(leader, CLOCK, SOON_S, pause_s=LEAST_PAUSE_S)
        answered = time.monotonic_ns()
        answers.append(Offset(theirs - (asked + answered) // 2, (answered - asked + 1) // 2))
    return min(answers, key=lambda offset: offset.error_ns)


def skew(
    left_ns: list[int], nodes: list[int], before: list[Offset], after: list[Offset]
) -> tuple[list[int], int]:
    """Return by how much later than the first each rank started, and how true that is, in ns.

    `left_ns` is by each rank's own clock, `nodes` its node. Where a clock drifted between the two
    comparisons, the offset is taken in the middle, and half of the drift is part of the error.
    """
    offsets = [(one.ns + other.ns) // 2 for one, other in zip(before, after, strict=True)]
    errors = [
        max(one.error_ns, other.error_ns) + abs(one.ns - other.ns) // 2
        for one, other in zip(before, after, strict=True)
    ]
    common = [left - offsets[node] for left, node in zip(left_ns, nodes, strict=True)]
    first = min(common)
    return [time_ns - first for time_ns in common], max(errors)
