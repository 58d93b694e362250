"""One rank of bench/ranks.py: trials of two phases that do next to nothing, one after the other.

mpirun -n N python bench/phase_rank.py FOLDER TRIALS
The first rank prints the median over all trials of the longest elapsed time of a rank, in ns.
"""

import json
import statistics
import sys

from savemark import _engine
from savemark.ranks.collective import Collective
from savemark.ranks.launch import join
from savemark.ranks.nodes import placement

TINY = 4096
TIMEOUT_S = 60.0


def main() -> None:
    folder, trials = sys.argv[1], int(sys.argv[2])
    world = join()
    nodes = list(world.nodes.ranks.values())
    members = [rank for ranks in nodes for rank in ranks]
    trial = {"workload": "file_per_process", "storage": "posix", "direct": False, "target": folder}
    trial |= {"block_size": TINY, "segments": 1, "transfer_size": TINY, "sync": "none"}
    words = json.dumps({**trial, "cache": "warm"}), None, None
    place = json.dumps(placement(nodes, members.index(world.rank)))
    one, elapsed_ns = _engine.Engine(), []
    for number in range(trials):
        collective = Collective(world, members, number, TIMEOUT_S, TIMEOUT_S)
        barrier = collective.enter(nodes)
        record = json.loads(one.run(*words, place, collective.allgather, barrier))
        elapsed_ns.append(record["elapsed_ns"])
    found = world.allgather([elapsed_ns])
    world.flush()
    if world.rank == 0:
        print(statistics.median(map(max, zip(*found, strict=True))), flush=True)


if __name__ == "__main__":
    main()
