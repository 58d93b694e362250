"""All ranks that were started: messages between two of them, never waited for without a limit.

Only messages from one to one are used, and looked for instead of waited for inside MPI: whoever
waits can go on, name who did not come, and does not burn the processor that others measure with.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import sys
import termios
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, TextIO

from savemark.ranks import node_barrier
from savemark.ranks.nodes import Nodes

# What a message is: orders of the first rank, collectives of a trial, signs of life, the clock.
ORDER, GATHER, BROADCAST, BARRIER, HEARTBEAT, STOP, CLOCK, LEAD_HEARTBEAT = range(8)
# How often the first rank says that it lives.
LEAD_HEARTBEAT_S = 1.0
# Looked for again at once for so long, then after pauses that grow with the time waited.
SPIN_S, PAUSE_MOST_S, LEAST_PAUSE_S = 1e-3, 5e-3, 2e-5
# A limit for what takes no time: after it somebody is lost.
SOON_S = 60.0
# How long all may take to start.
START_S = 300.0
# How long a rank waits for its next order: the first one may be writing a report.
IDLE_S = 4 * 3600.0
# For the launcher to read what was printed last, at most, and then to pass it on: what it has not
# when it ends is lost.
READ_S, PASS_ON_S = 10.0, 0.2
NODE = "SAVEMARK_NODE"


class TimedOut(Exception):  # noqa: N818
    """A message did not come in time."""


def node_name() -> str:
    """Return the name of this node; the environment names it where one machine plays several."""
    return os.environ.get(NODE) or socket.gethostname()


def boot_id() -> str:
    """Return what ranks share whose counters and clock are one kernel's."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return node_name()


class World:
    """The ranks of MPI, this one among them."""

    def __init__(self, mpi: Any) -> None:
        self._comm = mpi.COMM_WORLD
        self._any, self._status = mpi.ANY_SOURCE, mpi.Status
        self._lock = threading.Lock()  # MPI is called by one thread at a time
        self._sending: list[Any] = []
        self.rank: int = self._comm.Get_rank()
        self.size: int = self._comm.Get_size()
        self.library = " ".join(mpi.Get_library_version().split(",")[0].split()[:3])
        self.everyone = list(range(self.size))
        self.lost = False  # somebody does not answer: there is no common end
        self.code = 1  # with which all end then
        cores = sum(1 << core for core in os.sched_getaffinity(0))
        me = {"node": node_name(), "pid": os.getpid(), "boot": boot_id(), "cores": cores}
        self.all: list[dict[str, Any]] = self.allgather([me])
        self.nodes = Nodes.of([rank["node"] for rank in self.all])
        here = next(ranks for ranks in self.nodes.ranks.values() if self.rank in ranks)
        node_cores = reduce(or_, (self.all[rank]["cores"] for rank in here)).bit_count()
        self.node_barrier = node_barrier.open_for(
            self.rank, here, self.size, node_cores, self.allgather
        )
        self.lead_alive_s = time.monotonic()  # of the first rank, by the second one
        if self.rank == 0:
            threading.Thread(target=self._live, name="pulse", daemon=True).start()

    @property
    def meet(self) -> str:
        """How the barriers of the ranks of a node work: by shared `memory`, or by `messages`."""
        return "messages" if self.node_barrier is None else "memory"

    def _live(self) -> None:
        """Tell the second rank again and again that this one lives, whatever else it does."""
        while not self.lost:
            self.send(1, LEAD_HEARTBEAT, None)
            time.sleep(LEAD_HEARTBEAT_S)

    def check_lead(self, silent_s: float) -> None:
        """On the second rank: `TimedOut` if the first one, which judges all others, is silent."""
        if self.rank != 1:
            return
        now = time.monotonic()
        while self.take(LEAD_HEARTBEAT, 0):
            self.lead_alive_s = now
        if now - self.lead_alive_s > silent_s:
            raise TimedOut(f"{self.name(0)} gave no sign of life for {silent_s:.0f} s")

    def allgather(self, mine: list[Any]) -> list[Any]:
        """Put the lists of all ranks together, and give the whole to all."""
        both = self.gather(self.everyone, self.rank, mine, lambda a, b: a + b, START_S)
        whole: list[Any] = self.broadcast(self.everyone, self.rank, both, 2 * START_S)
        return whole

    def name(self, rank: int) -> str:
        """Return who a rank is, for people."""
        who = self.all[rank]
        return f"rank {rank} on {who['node']} (pid {who['pid']})"

    def send(self, to: int, tag: int, data: Any) -> None:
        """Send without waiting; the data is kept until it has gone."""
        with self._lock:
            self._sending = [request for request in self._sending if not request.Test()]
            self._sending.append(self._comm.isend(data, dest=to, tag=tag))

    def take(self, tag: int, source: int | None = None) -> tuple[int, Any] | None:
        """Return who sent a message that is here, and the message; None if there is none."""
        status = self._status()
        with self._lock:
            if self._sending:
                self._sending = [request for request in self._sending if not request.Test()]
            wanted = self._any if source is None else source
            if not self._comm.iprobe(source=wanted, tag=tag, status=status):
                return None
            who = status.Get_source()
            return who, self._comm.recv(source=who, tag=tag)

    def wait(
        self,
        source: int | None,
        tag: int,
        limit_s: float = SOON_S,
        meanwhile: Callable[[], None] = lambda: None,
        pause_s: float = PAUSE_MOST_S,
    ) -> tuple[int, Any]:
        """Return a message and who sent it; raise `TimedOut`, or what `meanwhile` raises."""
        began = time.monotonic()
        while True:
            message = self.take(tag, source)
            if message is not None:
                return message
            meanwhile()
            waited = time.monotonic() - began
            if waited > limit_s:
                raise TimedOut(f"nothing came from rank {source} for {waited:.0f} s")
            if waited < SPIN_S:
                os.sched_yield()
            else:
                time.sleep(max(LEAST_PAUSE_S, min(pause_s, waited / 10)))

    def gather(
        self,
        members: Sequence[int],
        here: int,
        mine: Any,
        merge: Callable[[Any, Any], Any],
        limit_s: float = SOON_S,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Any:
        """Merge what all members have, in their order, up a tree; the first one gets it all.

        `here` is this rank's place among the members.
        """
        mask = 1
        while mask < len(members):
            if here & mask:
                self.send(members[here - mask], GATHER, mine)
                return None
            if here + mask < len(members):
                _, theirs = self.wait(members[here + mask], GATHER, limit_s, meanwhile)
                mine = merge(mine, theirs)
            mask <<= 1
        return mine

    def broadcast(
        self,
        members: Sequence[int],
        here: int,
        data: Any,
        limit_s: float = SOON_S,
        meanwhile: Callable[[], None] = lambda: None,
        tag: int = BROADCAST,
    ) -> Any:
        """Give what the first member has to all, down the same tree."""
        mask = 1
        while mask < len(members) and not here & mask:
            mask <<= 1
        if here:
            pause = PAUSE_MOST_S if tag == BROADCAST else 4 * PAUSE_MOST_S
            _, data = self.wait(members[here - mask], tag, limit_s, meanwhile, pause)
        while mask > 1:
            mask >>= 1
            if here + mask < len(members):
                self.send(members[here + mask], tag, data)
        return data

    def barrier(self, members: Sequence[int], here: int, meanwhile: Callable[[], None]) -> None:
        """Leave together: a dissemination barrier of ranks that are all here, or nearly."""
        step, count = 1, len(members)
        while step < count:
            self.send(members[(here + step) % count], BARRIER, step)
            self.wait(members[(here - step) % count], BARRIER, SOON_S, meanwhile, LEAST_PAUSE_S)
            step <<= 1

    def order(self, what: dict[str, Any] | None, silent_s: float = IDLE_S) -> dict[str, Any]:
        """Give all ranks the first one's next order; `TimedOut` where it is silent for so long."""

        def look() -> None:
            self.check_lead(silent_s)

        order: dict[str, Any] = self.broadcast(self.everyone, self.rank, what, IDLE_S, look, ORDER)
        return order

    def flush(self, limit_s: float = SOON_S) -> None:
        """Wait until all that was sent has gone."""
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            with self._lock:
                self._sending = [request for request in self._sending if not request.Test()]
            if not self._sending:
                return
            time.sleep(LEAST_PAUSE_S)

    def abort(self) -> None:
        """End all ranks at once, those that do not answer, too; the launcher does that."""
        sys.stdout.flush()
        sys.stderr.flush()
        until = time.monotonic() + READ_S
        while (_unread(sys.stdout) or _unread(sys.stderr)) and time.monotonic() < until:
            time.sleep(PAUSE_MOST_S)
        time.sleep(PASS_ON_S)
        self._comm.Abort(self.code)


def _unread(stream: TextIO) -> int:
    """Return how many bytes are in a pipe, unread; 0 where it is none, and nobody can know it."""
    count = array("i", [0])
    try:
        if stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode):
            fcntl.ioctl(stream.fileno(), termios.FIONREAD, count)
    except (OSError, ValueError):
        return 0
    return count[0]
