"""What must not grow in line with the ranks: comparing clocks, and a trial's record."""

import json
import threading
import time

import pytest

from made_world import together
from savemark.ranks import merge
from savemark.ranks.clocks import ROUNDS, Offset, compare
from savemark.ranks.world import CLOCK
from test_ranks_merge import record

SECOND = 1_000_000_000


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16])
def test_clocks_are_compared_along_a_tree_and_what_is_between_adds_up(size, monkeypatch):
    real = time.monotonic_ns
    ahead = {f"node {rank}": rank * 1000 * SECOND for rank in range(size)}
    monkeypatch.setattr(
        "savemark.ranks.clocks.time.monotonic_ns",
        lambda: real() + ahead.get(threading.current_thread().name, 0),
    )
    asked = [0] * size

    def work(world):
        threading.current_thread().name = f"node {world.rank}"
        send = world.send

        def counted(to, tag, data):
            asked[world.rank] += tag == CLOCK and data is None
            send(to, tag, data)

        world.send = counted
        return compare(world, list(range(size)))

    first, *others = together(size, work)
    assert others == [[]] * (size - 1)
    for rank, offset in enumerate(first):
        assert abs(offset.ns - rank * 1000 * SECOND) <= offset.error_ns < 100 * SECOND
    assert asked[0] == ROUNDS * (size - 1).bit_length(), "a few nodes, however many there are"


def test_a_record_of_many_ranks_is_a_few_lines():
    ranks, per_node = 2000, 4
    whole = None
    for rank in range(ranks):
        mine = merge.prepare(record(), rank // per_node, f"kernel {rank // per_node}", {"write": 5})
        whole = mine if whole is None else merge.merge(whole, mine)
    clocks = [Offset(0, 1)] * (ranks // per_node)
    found = merge.complete(whole, clocks, clocks, [f"n{n}" for n in range(ranks // per_node)])
    (phase,) = found["phases"]
    assert phase["ranks"]["of"] == ranks
    assert len(phase["ranks"]["rank"]) == len(phase["ranks"]["last_done_ns"]) == merge.SLOWEST
    assert len(json.dumps(phase)) < 20_000
