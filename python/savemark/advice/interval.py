"""How often to save: interval, goodput, and the bandwidth that an overhead needs.

Symbols, all in seconds and bytes: `d` blocking time of a save, `m` mean time between failures of
the job, `r` time from a failure until work goes on (detect, restart, restore), `tau` useful work
between saves, `s` stall of an asynchronous save, `w` time until it is durable.
"""

from __future__ import annotations

import math

# Bytes per parameter of what a checkpoint holds.
MIXED_ADAM = 14.0  # bf16 weights 2, fp32 master, momentum and variance 4 each
NO_MASTER = 10.0
ADAM_8BIT = 8.0
WEIGHTS_ONLY = 2.0
# Llama 3, 405 B: 419 unexpected interruptions in 54 days on 16,384 H100 (Meta, 2024).
GPU_MTBF_S = 50_700 * 3600.0


def job_mtbf(gpu_mtbf: float, gpus: int) -> float:
    """Mean time between failures of a job on `gpus`: any one of them stops it."""
    return gpu_mtbf / gpus


def young(d: float, m: float) -> float:
    """The first-order interval √(2dM). Source: Young, CACM 17 (1974) 530."""
    return math.sqrt(2 * d * m)


def daly(d: float, m: float) -> float:
    """The higher-order interval; M where a save takes longer than 2M.

    Source: Daly, Future Generation Computer Systems 22 (2006) 303, equation 37.
    """
    if d >= 2 * m:
        return m
    x = d / (2 * m)
    return young(d, m) * (1 + math.sqrt(x) / 3 + x / 9) - d


def optimal(d: float, m: float) -> float:
    """The interval with the greatest goodput, exact for exponential failures.

    dE/dτ = 0 is 1 - τ/M = e^{-(τ+d)/M}, whose root is τ = M·(1 + W(-e^{-1-d/M})) with Lambert's W.
    It does not depend on the time to restart. Source: Daly 2006 (as above), equation 20.
    """
    from scipy.special import lambertw

    return m * (1 + float(lambertw(-math.exp(-1 - d / m)).real))


def goodput(tau: float, d: float, m: float, r: float) -> float:
    """Share of the time that is useful work: E = τ / (M·e^{R/M}·(e^{(τ+d)/M} - 1)).

    Exact for exponential failures, which may also strike while saving and restarting. First-order
    forms are 1 to 11 points pessimistic where d/M or R/M is large. Source: Daly 2006 (as above).
    """
    exponent = (tau + d) / m
    if exponent + r / m > 700:  # e^700 is the end of a double; nothing gets done
        return 0.0
    return tau / (m * math.exp(r / m) * math.expm1(exponent))


def asynchronous(s: float, w: float, m: float) -> float:
    """The interval of saves that stall for `s` and are durable after `w`: max(w, √(2sM)).

    The next save cannot start before the last one is durable.
    """
    return max(w, math.sqrt(2 * s * m))


def asynchronous_overhead(tau: float, s: float, w: float, m: float, r: float) -> float:
    """Share of the time that is lost, to first order: s/τ + (τ/2 + w + R)/M, at most 1.

    A failure costs half an interval, the save under way (not yet durable), and the restart. Too
    dark where the sum is large: `goodput_asynchronous` is not.
    """
    return min(1.0, s / tau + (tau / 2 + w + r) / m)


def goodput_asynchronous(tau: float, s: float, w: float, m: float, r: float) -> float:
    """Share of useful time with saves that stall for `s` and are durable after `w` ≤ τ.

    The form of `goodput`: a save stops the work for s only, and a failure costs w more, for the
    save that was under way is lost and what it held is done again.
    """
    return goodput(tau, s, m, r + w)


def two_tiers(d_near: float, d_far: float, m: float, survived: float) -> tuple[float, float]:
    """Intervals of a near and a far tier, where the near one survives a share of the failures.

    τ₁ = √(2 d₁ M / p), τ₂ = √(2 d₂ M / (1 - p)): each tier sees the failures that it answers for.
    """
    return math.sqrt(2 * d_near * m / survived), math.sqrt(2 * d_far * m / (1 - survived))


def needed_bandwidth(state: float, m: float, overhead: float) -> float:
    """Write bandwidth (bytes/s) with which blocking saves cost `overhead`: 2S/(x²M).

    At Young's interval saving and lost work cost √(2d/M) together, to first order.
    """
    return 2 * state / (overhead**2 * m)


def needed_bandwidth_asynchronous(state: float, m: float, overhead: float) -> float:
    """The same where saves do not block: 1.5·S/(xM).

    With s near 0 and τ = w, only (τ/2 + w)/M is left.
    """
    return 1.5 * state / (overhead * m)
