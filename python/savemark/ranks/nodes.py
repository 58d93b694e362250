"""Which ranks are on which node, and which of them run a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from savemark.errors import usage
from savemark.study.keys import NODES, RANKS, RANKS_PER_NODE, Trial

Json = dict[str, Any]


@dataclass(frozen=True)
class Nodes:
    """Ranks of the launcher by the name of their node, in the order in which they count."""

    ranks: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, names: list[str]) -> Nodes:
        """Group ranks by the names of their nodes, which stand in the order of ranks."""
        groups: dict[str, list[int]] = {}
        for rank, name in enumerate(names):
            groups.setdefault(name, []).append(rank)
        return cls({name: tuple(ranks) for name, ranks in groups.items()})

    @classmethod
    def alone(cls) -> Nodes:
        """Return the one process that no launcher has started."""
        return cls({"": (0,)})

    @property
    def count(self) -> int:
        """How many ranks there are."""
        return sum(len(ranks) for ranks in self.ranks.values())

    def choose(self, trial: Trial) -> list[tuple[int, ...]]:
        """Return the ranks that run a trial, node by node; a usage error if there are too few.

        Without any of the three keys all of them do. Those of a part are spread evenly.
        """
        nodes, per_node, ranks = (trial.get(key) for key in (NODES, RANKS_PER_NODE, RANKS))
        chosen = list(self.ranks.values())
        if nodes is not None:
            chosen = chosen[: _at_least_one(NODES, nodes)]
            if len(chosen) < nodes:
                raise self._too_few(f"{nodes} nodes", int(nodes) * int(per_node or 1))
        wanted = sum(map(len, chosen)) if ranks is None else _at_least_one(RANKS, ranks)
        if per_node is not None:
            if ranks is not None and ranks != per_node * len(chosen):
                raise usage(f"{RANKS}: {ranks} are not {per_node} on each of {len(chosen)} nodes")
            chosen = [here[: _at_least_one(RANKS_PER_NODE, per_node)] for here in chosen]
            wanted = per_node * len(chosen)
        taken = [0] * len(chosen)
        while sum(taken) < wanted:
            room = [place for place, here in enumerate(chosen) if taken[place] < len(here)]
            if not room:
                raise self._too_few(f"{wanted} ranks", wanted)
            taken[min(room, key=lambda place: (taken[place], place))] += 1
        return [here[:count] for here, count in zip(chosen, taken, strict=True) if count]

    def _too_few(self, wanted: str, ranks: int) -> Exception:
        here = f"{self.count} on {len(self.ranks)} node{'' if len(self.ranks) == 1 else 's'}"
        here = here if self.count > 1 else "one process"
        return usage(
            f"a trial asks for {wanted}, and {here} was started",
            f"mpirun -n {ranks} savemark run …",
        )


def placement(chosen: list[tuple[int, ...]], position: int) -> Json:
    """Return what the engine is told of the rank at `position` of those chosen."""
    first = 0
    for here in chosen:
        if position < first + len(here):
            break
        first += len(here)
    return {
        "rank": position,
        "ranks": sum(map(len, chosen)),
        "first_here": first,
        "nodes": len(chosen),
        "per_node": max(map(len, chosen)),
    }


def _at_least_one(key: str, value: Any) -> int:
    if int(value) < 1:
        raise usage(f"{key}: {value} is less than 1")
    return int(value)
