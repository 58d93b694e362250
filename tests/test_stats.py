"""Known values: binomial intervals, exact tests, Holm, ties, rates, and what binds."""

import itertools
import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from savemark.stats import (
    Bounds,
    Ceiling,
    holm,
    mann_whitney,
    median,
    repeats_needed,
    smallest_p,
    speeds,
    spread,
)
from savemark.stats.ceilings import ceilings
from savemark.stats.spread import interval_rank


@pytest.mark.parametrize(
    ("n", "rank", "coverage"),
    # Tables of nonparametric confidence intervals for the median, for example Hahn & Meeker.
    [(6, 1, 0.96875), (8, 1, 0.9921875), (9, 2, 0.9609375), (10, 2, 0.978515625), (20, 6, 0.9586)],
)
def test_order_statistic_interval(n, rank, coverage):
    found = spread(range(1, n + 1))
    assert (found.low, found.high) == (rank, n + 1 - rank)
    assert found.coverage == pytest.approx(coverage, abs=1e-4)
    assert found.kind == "95 %"


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_samples_give_the_range_and_say_so(n):
    found = spread(range(n, 0, -1))
    assert (found.low, found.high, found.coverage) == (1, n, None)
    assert found.kind == f"range, n = {n}"


def test_median_and_no_samples():
    assert median([3, 1, 2]) == 2
    assert median([4, 1, 2, 3]) == 2.5
    with pytest.raises(ValueError, match="at least one"):
        spread([])


def test_smallest_p_and_repeats_needed_as_published():
    assert [round(smallest_p(n, n), 4) for n in (3, 5, 6, 7)] == [0.1, 0.0079, 0.0022, 0.0006]
    assert repeats_needed(19) == 6  # the best of 20
    assert repeats_needed(23) == 6  # the best of 24
    assert repeats_needed(1) == 4


def test_mann_whitney_complete_separation_and_ties():
    assert mann_whitney([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]) == pytest.approx(2 / 252)
    assert mann_whitney([1, 1, 2], [1, 2, 2]) == pytest.approx(_brute([1, 1, 2], [1, 2, 2]))
    assert mann_whitney([1, 1], [1, 1]) == 1


def _brute(a, b):
    def u(x, y):
        return sum((i > j) + 0.5 * (i == j) for i in x for j in y)

    pooled, centre = [*a, *b], len(a) * len(b) / 2
    far = []
    for chosen in itertools.combinations(range(len(pooled)), len(a)):
        x = [pooled[i] for i in chosen]
        y = [pooled[i] for i in range(len(pooled)) if i not in chosen]
        far.append(abs(u(x, y) - centre) >= abs(u(a, b) - centre) - 1e-9)
    return sum(far) / len(far)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 5), (7, 7), (12, 40), (50, 50), (100, 99)])
def test_the_distribution_of_u_is_scipys(n, m):
    from scipy.stats import mannwhitneyu

    rng = random.Random(n)
    for shift in (0.0, 0.5, 2.0):
        a, b = [rng.gauss(0, 1) for _ in range(n)], [rng.gauss(shift, 1) for _ in range(m)]
        exact = mannwhitneyu(a, b, alternative="two-sided", method="exact").pvalue
        assert mann_whitney(a, b) == pytest.approx(exact, rel=1e-6)


def test_many_repeats_are_compared_by_the_normal_approximation():
    rng = random.Random(1)
    a, b = [rng.gauss(0, 1) for _ in range(150)], [rng.gauss(0.3, 1) for _ in range(150)]
    from scipy.stats import mannwhitneyu

    assert mann_whitney(a, b) == mannwhitneyu(a, b, method="asymptotic").pvalue


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


def test_rates_come_from_times():
    assert speeds([100, 100, 100], [1.0, 2.0, 10.0]).median == 50  # amount / median time
    assert speeds([100, 100], [1.0, 3.0]).median == 50  # of two, their amounts over their times
    assert speeds([100, 300], [1.0, 1.0]).median == 200
    assert speeds([90, 10, 200], [1.0, 1.0, 1.0]).median == 90  # a time limit: the middle repeat


@given(st.lists(st.tuples(st.integers(0, 10**13), st.floats(1e-9, 1e6)), min_size=1, max_size=40))
def test_a_median_speed_lies_within_its_own_interval(done):
    found = speeds([n for n, _ in done], [s for _, s in done])
    assert found.low <= found.median <= found.high


def ceiling(name, title, value):
    return Ceiling(name, "", title, spread([1.0]), spread([value]), None, None, 1.0)


CEILINGS = {
    "write": ceiling("write", "disk write", 2.0),
    "memcpy": ceiling("memcpy", "memory copy", 1.5),
    "codec/zstd encode": ceiling("codec/zstd", "codec zstd", 0.5),
}


def levels(codec, streams):
    return {"codec": codec, "streams": streams}


@pytest.mark.parametrize(
    ("where", "ratio", "expected"),
    [
        (("none", 4), 1.0, (2.0, "disk write")),
        (("zstd", 0), 1.3, (0.5, "codec zstd × 1 core")),
        (("zstd", 2), 1.3, (1.0, "codec zstd × 2 cores")),
        (("zstd", 8), 1.3, (2.0, "codec zstd × 4 cores")),  # no more threads than cores
        (("tar", 4), 1.0, (1.5, "memory copy")),
        (("lz4", 4), 1.1, (2.2, "disk write")),
    ],
)
def test_what_binds(where, ratio, expected):
    found = Bounds(CEILINGS, 4).limit(levels(*where), "save", ratio)
    assert (found.rate, found.name) == (pytest.approx(expected[0]), expected[1])


def test_of_several_numbers_of_workers_the_fastest_ceiling_counts():
    rows = [
        {"label": "a", "role": "ceiling", "phase": phase, "name": name, "elapsed_ns": ms * 10**6}
        for name, phase, times in [
            ("read_checked", "read", (90, 100, 400)),
            ("read_checked/1", "read", (60, 50, 50)),
            ("read_checked/8", "read", (70, 20, 70)),
            ("codec/lz4", "encode", (10, 10, 10)),
        ]
        for ms in times
    ]
    same = {"user_bytes": 10**8, "stored_bytes": 10**8, "io_count": 9, "sync_latency_p50_ns": None}
    found = ceilings(pl.DataFrame([{**row, **same} for row in rows]), "a")
    assert set(found) == {"read_checked", "codec/lz4 encode"}
    checked = found["read_checked"]
    assert (checked.title, checked.rate) == ("checked disk read", 2e9), "its median, not its luck"


def test_without_a_disk_ceiling_nothing_is_claimed():
    assert Bounds({}, 4).limit(levels("zstd", 2), "save", 1.3) is None
    assert Bounds(CEILINGS, 4).limit(levels("zstd", 2), "restore", 1.3) is None
    assert Bounds(CEILINGS, 4).limit(levels("none", 2), "copy", 1.0) is None


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_interval_of_a_median_is_the_narrowest_that_reaches_the_confidence(confidence):
    for n in [*range(1, 60), 997, 2000]:
        rank, coverage = interval_rank(n, confidence)
        reached = [1 - 2 * float(binom.cdf(k - 1, n, 0.5)) for k in range(1, n // 2 + 1)]
        ranks = [k for k, share in enumerate(reached, 1) if share >= confidence - 1e-12]
        assert rank == max(ranks, default=1), n
        assert coverage == (pytest.approx(reached[rank - 1]) if ranks else None), n
