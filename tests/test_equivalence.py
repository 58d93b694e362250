"""Each setting against the best: its interval holds, and says what it decides, or how long yet."""

import math

import numpy as np
import pytest

from savemark.stats.equivalence import MARGIN, against_best

NOISES = {
    "equal": lambda rng, k, n: rng.normal(0, 0.04, (k, n)),
    "unequal": lambda rng, k, n: rng.normal(0, 0.04, (k, n)) * np.linspace(1, 5, k)[:, None],
    "drift": lambda rng, k, n: rng.normal(0, 0.04, (k, n)) + np.linspace(0, 0.5, n),
    "two states": lambda rng, k, n: 0.1 * (rng.random((k, n)) < 0.5) + rng.normal(0, 0.004, (k, n)),
}


def compared(logs, **options):
    rows = [{i: float(math.exp(x)) for i, x in enumerate(row) if not np.isnan(x)} for row in logs]
    return against_best(rows, **options)


def statuses(found):
    return [each and each.status for each in found.others]


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize(("k", "n"), [(2, 6), (5, 6), (5, 12), (24, 6)])
def test_the_intervals_hold_the_truth_all_together(noise, k, n):
    """At most 5 of 100 runs miss it, though the best is chosen from the same repeats."""
    rng, missed = np.random.default_rng(1), 0
    for _ in range(100):
        true = rng.uniform(0, 0.3, k)
        found = compared(true[:, None] + noise(rng, k, n))
        ratios = np.expm1(true - true[found.best])
        missed += any(
            not each.low <= ratio <= each.high
            for each, ratio in zip(found.others, ratios, strict=True)
            if each is not None
        )
    assert missed <= 11, "a rate of 5 % gives more in 1 of 100 tries"


def test_settings_are_as_fast_or_slower_where_the_noise_is_small():
    logs = np.random.default_rng(2).normal(0, 0.01, (4, 6)) + np.log([[1.0], [1.02], [1.3], [1.5]])
    found = compared(logs)
    assert (found.best, statuses(found)) == (0, [None, "as fast", "slower", "slower"])
    assert found.decided
    assert found.others[1].high <= MARGIN < found.others[2].low < 0.3 < found.others[2].high
    assert {each.more for each in found.others[1:]} == {0}


def test_slower_by_less_than_the_margin_is_as_fast():
    logs = np.random.default_rng(3).normal(0, 0.002, (2, 8)) + np.log([[1.0], [1.05]])
    found = compared(logs)
    assert found.others[1].low > 0, "it is slower"
    assert found.others[1].status == "as fast", "but not by what anybody asked about"
    assert statuses(compared(logs, margin=0.01)) == [None, "slower"]


def test_noise_leaves_it_open_and_says_for_how_long():
    rng = np.random.default_rng(4)
    found = compared(rng.normal(0, 0.08, (3, 6)))
    open_ = [each for each in found.others if each and each.status == "unknown"]
    assert open_
    assert not found.decided
    assert all(each.low < 0 < MARGIN < each.high and each.more > 0 for each in open_)
    hopeless = compared(rng.normal(0, 1.0, (3, 6)))
    assert {each.more for each in hopeless.others if each} == {None}


def test_so_many_repeats_more_decide_in_most_runs():
    rng, decided, asked = np.random.default_rng(5), 0, 0
    for _ in range(100):
        logs = rng.normal(0, 0.05, (4, 106)) + np.log([[1.0], [1.0], [1.02], [1.15]])
        for i, each in enumerate(compared(logs[:, :6]).others):
            if each is not None and each.status == "unknown" and each.more is not None:
                later = compared(logs[:, : 6 + each.more]).others[i]
                asked += 1
                decided += later is None or later.status != "unknown"
    assert asked > 100
    assert decided > 0.6 * asked, "said to decide 4 in 5, of noise that six repeats show"


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_fewer_than_six_repeats_decide_nothing(n):
    found = compared(np.log([[1.0], [3.0]]) + np.random.default_rng(6).normal(0, 0.01, (2, n)))
    assert statuses(found) == [None, "unknown"]
    assert found.others[1].more >= 6 - n
    assert found.others[1].low <= 2.0 <= found.others[1].high


def test_a_setting_that_failed_too_often_is_unknown_beside_decided_ones():
    logs = np.random.default_rng(7).normal(0, 0.01, (3, 8)) + np.log([[1.0], [1.5], [1.5]])
    logs[2, 2:] = np.nan
    assert statuses(compared(logs)) == [None, "slower", "unknown"]


def test_settings_far_off_do_not_widen_the_others():
    """The middle of a repeat is that of settings less their own: who lies where does not matter."""
    noise = np.random.default_rng(8).normal(0, 0.01, (3, 6))
    near, far = (compared(noise + np.log([[1.0], [1.01], [last]])) for last in (1.02, 9.0))
    assert near.others[1].high == pytest.approx(far.others[1].high)


def test_a_slow_hour_hits_every_setting_of_its_repeat_and_hides_nothing():
    noise = np.random.default_rng(9).normal(0, 0.005, (2, 6)) + np.log([[1.0], [1.2]])
    assert statuses(compared(noise + np.linspace(0, 2, 6))) == statuses(compared(noise))


def test_times_may_all_be_equal_and_no_ratio_is_made_of_nothing():
    assert statuses(against_best([dict.fromkeys(range(6), 1.0)] * 2)) == [None, "as fast"]
    zero = against_best([dict.fromkeys(range(6), 0.0), dict.fromkeys(range(6), 1.0)])
    assert (statuses(zero), zero.others[1].more) == ([None, "unknown"], None)


def test_a_setting_alone_is_the_best():
    found = against_best([{0: 1.0}])
    assert (found.best, found.others, found.decided) == (0, (None,), True)
