"""What cannot be improved in one respect without being worse in another."""

from __future__ import annotations

import math
from collections.abc import Sequence

Point = Sequence[float]  # costs: less is better in every place


def front(points: Sequence[Point], same: float = 0.0) -> list[int]:
    """Return the indices of the points that no other point dominates, in the order given.

    A point dominates another if it is nowhere worse and somewhere better (Pareto 1906); of equal
    points all stay. Costs less than the share `same` apart count as equal, for measured costs
    differ by chance; where that leaves nothing (a circle of near ties), none do.
    """
    found = [i for i, p in enumerate(points) if not any(_dominates(q, p, same) for q in points)]
    return found if found or not same else front(points)


def nearest_to_ideal(points: Sequence[Point], same: float = 0.0) -> int:
    """Return the index of the point on the front that is nearest to the best of every cost at once.

    Each cost is scaled to 0…1 between its least and its greatest on the front, so no unit counts
    more than another. Source: Zeleny, Compromise Programming (1973).
    """
    on_front = front(points, same)
    lows = [min(points[i][axis] for i in on_front) for axis in range(len(points[0]))]
    highs = [max(points[i][axis] for i in on_front) for axis in range(len(points[0]))]

    def distance(i: int) -> float:
        steps = zip(points[i], lows, highs, strict=True)
        return math.hypot(*((x - low) / ((high - low) or 1.0) for x, low, high in steps))

    return min(on_front, key=distance)


def _dominates(p: Point, q: Point, same: float) -> bool:
    pairs = list(zip(p, q, strict=True))
    return all(a <= b * (1 + same) for a, b in pairs) and any(a * (1 + same) < b for a, b in pairs)
