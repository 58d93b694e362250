"""A job that works, saves, fails and restarts, played through with random failures."""

from __future__ import annotations

import random

SEGMENTS = 400_000  # a third of a second; the result is good to 0.1 point


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


def simulate_asynchronous(
    times: tuple[float, float, float],
    m: float,
    r: float,
    *,
    segments: int = SEGMENTS,
    seed: int = 1,
) -> float:
    """Return the same for saves that go on while the job works.

    `times` is (tau, s, w): work between saves, how long a save stops it, and how long after that it
    is durable. A failure throws the job back to the last durable save.
    """
    tau, s, w = times
    rng = random.Random(seed)
    clock, next_failure = 0.0, rng.expovariate(1 / m)
    done = 0  # intervals of work that a durable save holds
    ahead: list[float] = []  # when the later ones are durable
    while done < segments:
        if clock + tau + s <= next_failure:
            clock += tau + s
            ahead.append(clock + w)
        else:
            done += sum(moment <= next_failure for moment in ahead)
            ahead = []
            clock = next_failure
            next_failure = clock + rng.expovariate(1 / m)
            while clock + r > next_failure:
                clock = next_failure
                next_failure = clock + rng.expovariate(1 / m)
            clock += r
        while ahead and ahead[0] <= clock:
            ahead.pop(0)
            done += 1
    return done * tau / clock
