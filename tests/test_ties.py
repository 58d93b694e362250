"""Which settings are tied with the best: equal ones stay together, and different ones do not."""

import numpy as np
import pytest

from savemark.stats import group_of_best, spread
from savemark.stats.ties import FLIPS, NORMAL


def by_repeat(rows):
    """Rows of times as costs by repeat; nan is a repeat that failed."""
    return [{i: float(x) for i, x in enumerate(row) if not np.isnan(x)} for row in rows]


def grouped(logs):
    return group_of_best(by_repeat(np.exp(logs)))


def unequal(k):
    return np.linspace(1, 5, k)[:, np.newaxis]


NOISES = {
    "equal": lambda rng, k, n: rng.normal(0, 0.04, (k, n)),
    "unequal": lambda rng, k, n: rng.normal(0, 0.04, (k, n)) * unequal(k),
    "drift": lambda rng, k, n: rng.normal(0, 0.04, (k, n)) + np.linspace(0, 0.3, n),
    "two states": lambda rng, k, n: 0.1 * (rng.random((k, n)) < 0.5) + rng.normal(0, 0.004, (k, n)),
}


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize(("k", "n"), [(24, 3), (24, 5), (24, 6), (24, 10), (336, 10)])
def test_equal_settings_are_rarely_told_apart(noise, k, n):
    """At most 5 of 100 runs; bench/ties.py has many more of them, and more kinds of noise."""
    rng = np.random.default_rng(1)
    runs = 100 if k < 100 else 10
    wrong = sum(len(grouped(noise(rng, k, n)).tied) < k - 1 for _ in range(runs))
    assert wrong <= (9 if runs == 100 else 2), "a rate of 5 % gives more in 2 of 100 tries"


@pytest.mark.parametrize("k", [2, 24])
@pytest.mark.parametrize("n", [3, 5, 6, 10])
def test_what_can_be_found_is_told_and_found(k, n):
    rng = np.random.default_rng(2)
    shares = []
    for _ in range(40):
        logs = rng.normal(0, 0.04, (k, n))
        logs[k // 2 :] += np.log1p(grouped(logs).findable)
        found = grouped(logs)
        slower = set(range(k)) - {found.best, *found.tied}
        shares.append(len([i for i in slower if i >= k // 2]) / (k - k // 2))
    assert np.mean(shares) > 0.5, "said to be found in 4 of 5 runs, about"


def test_what_hits_a_whole_repeat_hides_nothing():
    rng = np.random.default_rng(3)
    logs = rng.normal(0, 0.01, (4, 8)) + np.linspace(0, 2, 8)
    logs[2:] += 0.1
    found = grouped(logs)
    assert found.test == FLIPS
    assert {found.best, *found.tied} == {0, 1}


def test_settings_that_also_ran_in_slow_repeats_are_not_slower_for_that():
    """The first setting has failed in the repeats that were slow for all: its median is lowest."""
    logs = np.random.default_rng(4).normal(0, 0.001, (3, 7)) + np.array([0, 0, 0, 1, 1, 1, 1])
    logs[0, 4:] = np.nan
    found = grouped(logs)
    assert (found.best, sorted(found.tied)) == (0, [1, 2])


def test_few_repeats_suppose_a_distribution_and_two_show_nothing():
    logs = np.random.default_rng(5).normal(0, 0.01, (4, 5))
    logs[3] += 1
    assert (grouped(logs).test, 3 in grouped(logs).tied) == (NORMAL, False)
    two = grouped(logs[:, :2])
    assert (two.test, len(two.tied), two.findable) == ("", 3, None)
    assert set(two.p_adjusted) == {None}


def test_three_repeats_of_many_settings_are_all_tied():
    found = grouped(np.random.default_rng(6).normal(0, 0.04, (336, 3)))
    assert len(found.tied) == 335
    assert found.findable > 10, "and the reader is told why"


def test_rounded_times_prove_nothing():
    """Three times 0.12 and three times 0.13 may be 0.1249 and 0.1251."""
    found = group_of_best(by_repeat([[0.12] * 3, [0.13] * 3]))
    assert found.tied == (1,)
    assert group_of_best(by_repeat([[1.0] * 8, [1.0] * 8])).tied == (1,)


def test_costs_may_be_zero():
    found = group_of_best(by_repeat([[0.0] * 6, [0.0, 0.1, 0.0, 0.2, 0.0, 0.1], [5.0] * 6]))
    assert (found.best, found.tied, found.findable) == (0, (1,), None)


def test_a_tied_setting_is_near_only_if_its_median_is():
    """Wide ranges tie everything; that does not make a setting a third slower as good."""
    found = group_of_best(by_repeat([[1.0, 1.1, 2.0], [1.1, 1.15, 1.9], [1.3, 1.5, 1.6]]))
    assert (found.best, found.tied, found.near) == (0, (1, 2), (0, 1))


def test_a_single_setting_has_no_rivals():
    found = group_of_best([{0: 1.0}])
    assert (found.best, found.tied, found.tested) == (0, (), False)


def test_a_spread_keeps_which_repeat_a_sample_is_of():
    found = spread([3.0, 1.0, 2.0], repeats=[2, 0, 5])
    assert found.by_repeat == {2: 3.0, 0: 1.0, 5: 2.0}
    assert spread([3.0, 1.0], repeats=[0, 0]).by_repeat == {0: 3.0, 1: 1.0}
    assert spread([3.0, 1.0], repeats=[None, None]).by_repeat == {0: 3.0, 1: 1.0}
