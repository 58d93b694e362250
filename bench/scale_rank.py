"""One rank of bench/scale.py: how long the exchanges of a trial take, by the code that does them.

mpirun -n N python bench/scale_rank.py ROUNDS RECORD.json      # the first rank prints JSON
"""

import json
import sys
import time
from collections.abc import Callable
from operator import add
from pathlib import Path

from savemark.ranks import merge
from savemark.ranks.clocks import compare
from savemark.ranks.collective import Collective
from savemark.ranks.launch import join
from savemark.ranks.world import SOON_S, World

IN_A_ROW = {"barrier": 20, "meeting": 20, "memory": 20, "record": 1, "clocks": 1}


def in_memory(world: World) -> Callable[[], object]:
    """Meeting in the memory of this node; nothing where the ranks are on several."""
    barrier = world.node_barrier
    if barrier is None or world.nodes.count > len(next(iter(world.nodes.ranks.values()))):
        return lambda: None
    collective = Collective(world, world.everyone, 0, SOON_S, SOON_S)
    collective.enter(list(world.nodes.ranks.values()))
    return lambda: barrier.meet("here", [], None, collective.allgather)


def main() -> None:
    rounds, record = int(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    world = join()
    everyone, here = world.everyone, world.rank
    left = {phase["name"]: time.monotonic_ns() for phase in record["phases"]}
    mine = merge.prepare(record, here, "one kernel", left)

    def nothing() -> None:
        """Nobody is looked for meanwhile."""

    exchanges = {
        "barrier": lambda: world.barrier(everyone, here, nothing),
        "meeting": lambda: world.broadcast(
            everyone, here, world.gather(everyone, here, [here], add)
        ),
        "memory": in_memory(world),
        "record": lambda: world.gather(everyone, here, mine, merge.merge),
        "clocks": lambda: compare(world, everyone),
    }
    found = {}
    for name, exchange in exchanges.items():
        found[name] = []
        for _ in range(rounds):
            world.barrier(everyone, here, nothing)
            began = time.perf_counter()
            # Several in a row: of one alone the others may be ahead already.
            for _ in range(IN_A_ROW[name]):
                exchange()
            found[name].append((time.perf_counter() - began) / IN_A_ROW[name])
    world.barrier(everyone, here, nothing)
    world.flush()
    if here == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
