"""A world of ranks that are threads, for the parts of running on several ranks without MPI."""

import threading
import time

from savemark import _engine
from savemark.ranks.nodes import Nodes
from savemark.ranks.world import World


class Post:
    """What the ranks of a made-up world have sent each other."""

    def __init__(self, size):
        self.lock = threading.Lock()
        self.boxes = [[] for _ in range(size)]


class Made(World):
    """A rank that is a thread."""

    def __init__(self, post, rank, nodes=None, node_barrier=None):
        self.post, self.rank, self.size = post, rank, len(post.boxes)
        self.everyone = list(range(self.size))
        self.library, self.lost, self.lead_alive_s = "threads", False, time.monotonic()
        self.node_barrier = node_barrier
        names = nodes or ["one"] * self.size
        self.all = [{"node": n, "pid": 100 + r, "boot": "same"} for r, n in enumerate(names)]
        self.nodes = Nodes.of(names)

    def send(self, to, tag, data):
        with self.post.lock:
            self.post.boxes[to].append((tag, self.rank, data))

    def take(self, tag, source=None):
        with self.post.lock:
            box = self.post.boxes[self.rank]
            for place, (kind, who, data) in enumerate(box):
                if kind == tag and source in (None, who):
                    del box[place]
                    return who, data
        return None


def node_barriers(size, nodes=None, cores=1):
    """The barrier of each rank of its node."""
    seats = [None] * size
    for ranks in Nodes.of(nodes or ["one"] * size).ranks.values():
        sizes = (len(ranks), size, cores)
        first = _engine.Hall(*sizes)
        joined = [_engine.Hall.join(first.address(), n, *sizes) for n in range(1, len(ranks))]
        for rank, barrier in zip(ranks, [first, *joined], strict=True):
            seats[rank] = barrier
    return seats


def together(size, work, nodes=None, seats=None):
    """Run `work(world)` on so many threads; return what each returned, or raised.

    `seats` are `node_barriers`, for ranks that have them.
    """
    post, found = Post(size), [None] * size

    def one(rank):
        try:
            found[rank] = work(Made(post, rank, nodes, seats and seats[rank]))
        except BaseException as error:
            found[rank] = error

    threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    return found
