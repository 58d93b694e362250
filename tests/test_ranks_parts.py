"""The parts of running on several ranks, without MPI: who runs what, clocks, meetings."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress

import pytest

from made_world import Made, Post, node_barriers, together
from savemark import _engine
from savemark.errors import RankLost, SavemarkError
from savemark.ranks import merge
from savemark.ranks.clocks import Offset, compare, skew
from savemark.ranks.collective import Collective, Failure, TrialOver, worse
from savemark.ranks.follow import follow
from savemark.ranks.lead import Lead
from savemark.ranks.nodes import Nodes, placement
from savemark.ranks.part import Work, timeout_s
from savemark.ranks.world import GATHER, TimedOut
from waiting import until


class Meeting(Collective):
    """One that works as the engine lets it: by the barrier of the node, if there is one."""

    def meet_all(self, at, numbers=(), failure=None):
        if self._node_barrier is None:
            return self.allgather(at, list(numbers), failure)
        with ThreadPoolExecutor(1) as engine:
            met = engine.submit(self._node_barrier.meet, at, list(numbers), failure, self.allgather)
            while wait([met], 0.05).not_done:
                with suppress(TrialOver):
                    self.moved({})
        return met.result()


def collective(world, timeout_s=200, silent_s=200, members=None):
    members = members or world.everyone
    mine = Meeting(world, members, 1, timeout_s, silent_s)
    mine.enter([[r for r in ranks if r in members] for ranks in world.nodes.ranks.values()])
    return mine


@pytest.fixture(params=["messages", "one node", "nodes"])
def seats(request):
    """Return how ranks meet: (size) → what `together` is told of it."""

    def seats(size):
        if request.param == "messages":
            return {}
        nodes = ["one"] * size
        if request.param == "nodes":
            nodes = ["one"] * (size - size // 2) + ["two"] * (size // 2)
        return {"nodes": nodes, "seats": node_barriers(size, nodes)}

    return seats


# Whatever is raised where ranks meet, the engine knows it as this.
OVER, LOST = (TrialOver, _engine.EngineError), (RankLost, _engine.EngineError)


# Who runs a trial.

CLUSTER = Nodes.of(["a", "a", "b", "b", "b"])


@pytest.mark.parametrize(
    ("trial", "chosen"),
    [
        ({}, [(0, 1), (2, 3, 4)]),
        ({"ranks": 1}, [(0,)]),
        ({"ranks": 2}, [(0,), (2,)]),
        ({"ranks": 3}, [(0, 1), (2,)]),
        ({"ranks": 5}, [(0, 1), (2, 3, 4)]),
        ({"nodes": 1}, [(0, 1)]),
        ({"nodes": 2, "ranks_per_node": 2}, [(0, 1), (2, 3)]),
        ({"ranks_per_node": 1}, [(0,), (2,)]),
        ({"ranks": 4, "ranks_per_node": 2}, [(0, 1), (2, 3)]),
    ],
)
def test_ranks_are_spread_over_nodes(trial, chosen):
    assert CLUSTER.choose(trial) == chosen


@pytest.mark.parametrize(
    ("trial", "why"),
    [
        ({"ranks": 6}, "asks for 6 ranks, and 5 on 2 nodes"),
        ({"nodes": 3}, "asks for 3 nodes"),
        ({"ranks_per_node": 3}, "asks for 6 ranks"),
        ({"ranks": 3, "ranks_per_node": 2}, "3 are not 2 on each of 2 nodes"),
        ({"ranks": 0}, "less than 1"),
    ],
)
def test_too_few_ranks_are_a_usage_error(trial, why):
    with pytest.raises(SavemarkError, match=why) as raised:
        CLUSTER.choose(trial)
    assert raised.value.kind == "usage"


def test_the_engine_is_told_where_a_rank_stands():
    chosen = [(0, 1), (2, 3, 4)]
    assert placement(chosen, 3) == {
        "rank": 3,
        "ranks": 5,
        "first_here": 2,
        "nodes": 2,
        "per_node": 3,
    }
    assert placement([(7,)], 0)["first_here"] == 0


def test_the_timeout_grows_with_the_trial(monkeypatch):
    monkeypatch.setenv("SAVEMARK_PATIENCE", "10")
    small = timeout_s({"size": 1 << 20}, 2)
    assert 10 < small < timeout_s({"size": 1 << 40}, 2)
    geometry = {"block_size": 1 << 30, "segments": 4, "workers": 2}
    assert timeout_s(geometry, 64) > 8 * timeout_s(geometry, 2) > small
    assert timeout_s({"duration": 300}, 1) >= 3000
    assert timeout_s({"items": 1_000_000}, 1) > 1000


# Clocks.


def test_starts_are_compared_by_each_nodes_clock():
    before, after = [Offset(0, 0), Offset(1000, 5)], [Offset(0, 0), Offset(1010, 3)]
    late, error = skew([50, 1060, 1055], [0, 1, 1], before, after)
    assert (late, error) == ([0, 5, 0], 10)


def test_a_clock_that_is_ahead_is_found_out(monkeypatch):
    ahead = 5_000_000_000
    real = time.monotonic_ns
    monkeypatch.setattr(
        "savemark.ranks.clocks.time.monotonic_ns",
        lambda: real() + (ahead if threading.current_thread().name == "ahead" else 0),
    )

    def work(world):
        threading.current_thread().name = "ahead" if world.rank == 1 else "right"
        return compare(world, [0, 1])

    offsets, _ = together(2, work)
    assert abs(offsets[1].ns - ahead) <= offsets[1].error_ns < 1_000_000_000


# Meetings.


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16])
def test_all_meet_and_know_the_numbers_of_all(size, seats):
    def work(world):
        mine = collective(world)
        first = mine.meet_all("here", [world.rank, 10 * world.rank])
        mine.meet_all("the start of write")
        mine.meet_all("the end")
        return first, mine.left(), mine.finish([world.rank], lambda a, b: a + b)

    found = together(size, work, **seats(size))
    numbers = [number for rank in range(size) for number in (rank, 10 * rank)]
    assert all(first == numbers for first, _, _ in found)
    assert all(list(left) == ["write"] for _, left, _ in found)
    assert found[0][2] == list(range(size)) and all(whole is None for _, _, whole in found[1:])


def test_a_failure_reaches_all_and_the_worst_is_said(seats):
    def work(world):
        mine = collective(world)
        failure = {
            1: ("failed", "no room", "make some"),
            2: ("corrupt", "wrong bytes", None),
            3: ("interrupted", "interrupted", None),
        }.get(world.rank)
        with pytest.raises(OVER):
            mine.meet_all("there" if failure is None else "the end", [], failure)
        return mine.failure

    found = together(5, work, **seats(5))
    assert all(failure == found[0] for failure in found)
    error = found[0].error()
    assert error.kind == "corrupt" and error.message == "rank 2 on one (pid 102): wrong bytes"
    one, other = (Failure(who, "failed", "", None) for who in "ab")
    assert worse(one, other) is one and worse(None, other) is other


def test_the_others_are_told_to_stop_in_the_middle_of_a_phase(seats):
    def work(world):
        mine = collective(world)
        if world.rank == 1:
            with pytest.raises(OVER):
                mine.meet_all("the end of write", [], ("failed", "it broke", None))
            return "told"
        with pytest.raises(TrialOver, match="another rank"):
            until(lambda: mine.moved({}))
        with pytest.raises(OVER):
            mine.meet_all("the end of write", [], ("interrupted", "interrupted", None))
        assert mine.failure.message == "it broke"
        return "stopped"

    assert together(3, work, **seats(3)) == ["stopped", "told", "stopped"]


def test_ranks_that_meet_at_two_places_are_a_bug(seats):
    def work(world):
        mine = collective(world)
        with pytest.raises(OVER):
            mine.meet_all(f"place {world.rank}")
        assert "a bug in savemark" in mine.failure.message

    assert together(2, work, **seats(2)) == [None, None]


def test_who_gives_no_sign_of_life_is_named_by_the_first_or_of_the_first_by_the_second(seats):
    for silent, judge in ((2, 0), (0, 1)):

        def work(world, silent=silent):
            mine = collective(world, silent_s=5)
            if world.rank == silent:
                return None
            with pytest.raises(LOST):
                mine.meet_all("the start of read")
            return mine.failure.error().message, world.lost

        # The others would wait for the judge to end everything.
        post = Post(3)
        found, more = {}, {"nodes": None, "seats": [None] * 3, **seats(3)}

        def one(rank, post=post, found=found, work=work, more=more):
            found[rank] = work(Made(post, rank, more["nodes"], more["seats"][rank]))

        threads = [threading.Thread(target=one, args=(r,), daemon=True) for r in range(3)]
        for thread in threads:
            thread.start()
        threads[judge].join(300)
        message, lost = found[judge]
        assert f"rank {silent} on" in message and "no sign of life" in message and lost


def test_who_lives_and_does_not_come_is_named(seats):
    gone = threading.Event()

    def work(world):
        mine = collective(world, timeout_s=0.5, silent_s=200)
        if world.rank == 1:
            # It lives, and is stuck in the storage.
            while not gone.wait(0.05):
                mine.moved({})
            return None
        if world.rank == 2:
            gone.wait(300)
            return None
        try:
            with pytest.raises(LOST):
                mine.meet_all("the end of read")
        finally:
            gone.set()
        return mine.failure.error().message

    message, *_ = together(3, work, **seats(3))
    assert "did not come within" in message and "rank 1 on one" in message


def test_nobody_watches_the_first_rank_while_it_draws_the_report(monkeypatch):
    """Whatever draws the figures may hold Python's lock for longer than a rank may be silent."""
    monkeypatch.setenv("SAVEMARK_PATIENCE", "2")
    gave_up = []
    monkeypatch.setattr(Made, "flush", lambda world: None)
    monkeypatch.setattr(Made, "abort", lambda world: gave_up.append(world.rank))

    def work(world, rests):
        if world.rank:
            return follow(world)
        lead = Lead(world)
        if rests:
            lead.rest()
            time.sleep(4)  # twice as long as a rank may be silent
        else:
            until(lambda: gave_up)
        lead.dismiss()
        return 0

    assert together(2, lambda world: work(world, rests=True)) == [0, 0]
    assert gave_up == []
    together(2, lambda world: work(world, rests=False))
    assert gave_up == [1], "it is watched in all other moments"


def test_nobody_waits_without_a_limit():
    def work(world):
        with pytest.raises(TimedOut):
            world.wait(0, 0, 0.05)

    assert together(1, work) == [None]


def test_whoever_is_interrupted_waits_no_longer():
    post = Post(2)
    mine = collective(Made(post, 0))
    mine.stopping = True
    with pytest.raises(TrialOver, match="interrupted"):
        mine.allgather("the start of read", [], None)
    # What the others say at the meeting that was left is no part of a record.
    Made(post, 1).send(0, GATHER, "the start of read")
    with pytest.raises(TrialOver, match="was left"):
        mine.finish(None, lambda one, _: one)


def test_whoever_is_interrupted_leaves_the_hall():
    seats = node_barriers(2)
    mine = collective(Made(Post(2), 0, node_barrier=seats[0]))
    threading.Timer(0.2, mine.stop).start()
    with pytest.raises(_engine.EngineError, match="interrupted"):
        mine.meet_all("the start of read")
    with pytest.raises(TrialOver, match="was left"):
        mine.finish(None, lambda one, _: one)


# A trial, with the engine.


@pytest.mark.parametrize("shared", [True, False])
def test_ranks_run_a_trial_of_the_engine_together(tmp_path, shared):
    trial = {"workload": "file_per_process", "storage": "posix", "direct": False}
    trial |= {"block_size": 65536, "segments": 2, "transfer_size": 16384, "verify": True}
    order = {"number": 1, "members": [(0, 1), (2,)], "timeout_s": 200, "silent_s": 200}
    order["trial"] = {**trial, "target": str(tmp_path)}

    def work(world):
        return Work(world, order).run(_engine.Engine(), lambda _: None)

    nodes = ["a", "a", "b"]
    found = together(3, work, nodes, node_barriers(3, nodes) if shared else None)
    assert found[1:] == [None, None]
    (part, failure), before, after = found[0]
    assert failure is None and len(before) == len(after) == 2
    whole = merge.complete(part, before, after, ["a", "b"])
    read = whole["phases"][1]
    assert read["name"] == "read" and read["user_bytes"] == 3 * 131072
    assert read["verified"] == "every block" and read["cache"]["total_pages"] == 96
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shared", [True, False])
def test_a_rank_that_fails_in_the_engine_is_named(tmp_path, shared):
    taken = tmp_path / "savemark-data-0001.bin"
    taken.write_text("not ours")
    trial = {"workload": "file_per_process", "storage": "posix", "direct": False}
    order = {"number": 1, "members": [(0, 1)], "timeout_s": 200, "silent_s": 200}
    order["trial"] = {**trial, "target": str(tmp_path)}

    def work(world):
        return Work(world, order).run(_engine.Engine(), lambda _: None)

    (part, failure), *_ = together(2, work, seats=node_barriers(2) if shared else None)[0]
    assert part is None
    error = failure.error()
    assert error.message.startswith("rank 1 on one (pid 101): cannot create")
    assert list(tmp_path.iterdir()) == [taken] and taken.read_text() == "not ours"
