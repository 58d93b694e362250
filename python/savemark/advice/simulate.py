"""A job that works, saves, fails and restarts, played through with random failures."""

from __future__ import annotations

import random

SEGMENTS = 40_000


def simulate(
    tau: float, d: float, m: float, r: float, *, segments: int = SEGMENTS, seed: int = 1
) -> float:
    """Return the share of useful time of a job that completes `segments` intervals.

    Failures come at exponential times with mean `m` and strike at any moment: in work, in a save
    and in a restart, which then begins anew. What was not saved is done again. This knows none of
    the formulas of `interval`, it only follows the clock.
    """
    rng = random.Random(seed)
    clock, next_failure = 0.0, rng.expovariate(1 / m)
    for _ in range(segments):
        while clock + tau + d > next_failure:
            clock = next_failure
            next_failure = clock + rng.expovariate(1 / m)
            while clock + r > next_failure:  # a failure while restarting
                clock = next_failure
                next_failure = clock + rng.expovariate(1 / m)
            clock += r
        clock += tau + d
    return segments * tau / clock
