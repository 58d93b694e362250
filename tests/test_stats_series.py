"""Trend, change point, modes, components, effects, repeats: known values, invariances, errors."""

import itertools
import math
import random

import pytest

from savemark.stats import (
    change_point,
    components,
    difference_of_medians,
    mann_kendall,
    median,
    ratio_of_medians,
    repeats_for_width,
    repeats_needed,
    repeats_to_find,
    spread,
    two_modes,
)

# Flow of the Nile at Aswan 1871-1970, 10^8 m³ (Cobb 1978): the dam's years begin after 1898.
NILE = [
    *(1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960),
    *(1180, 799, 958, 1140, 1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694),
    *(940, 833, 701, 916, 692, 1020, 1050, 969, 831, 726, 456, 824, 702, 1120, 1100, 832, 764),
    *(821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759, 781, 865, 845, 944, 984, 897, 822),
    *(1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890, 744, 749, 838, 1050),
    *(918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740),
]


def noisy(seed, n, sigma=0.03, step=0.0, every=2):
    """Times around 1 s; every `every`-th is `step` longer."""
    rng = random.Random(seed)
    return [math.exp(rng.gauss(0, sigma)) * (1 + step * (i % every == 0)) for i in range(n)]


def share(test, samples):
    found = [test(sample) for sample in samples]
    return sum(each.p < 0.05 for each in found) / len(found)


@pytest.mark.parametrize("n", [4, 7, 12, 30])
def test_mann_kendall_is_kendalls_tau_against_time(n):
    from scipy.stats import kendalltau

    values = noisy(n, n)
    expected = kendalltau(range(n), values, method="exact").pvalue
    assert mann_kendall(values).p == pytest.approx(expected)


def test_mann_kendall_known_values():
    found = mann_kendall([1, 2, 3, 4])
    assert (found.s, found.slope) == (6, 1)
    assert found.p == pytest.approx(2 / 24)  # the shortest clear trend is no proof
    assert mann_kendall([5, 4, 3, 2, 1]).p == pytest.approx(2 / 120)
    assert mann_kendall([1, 1, 1, 1]).p == 1
    assert mann_kendall([7.0]).p == 1
    # With ties, the normal approximation of Kendall (1975): S = 30, variance 1548/18 + ties.
    tied = mann_kendall([1, 2, 2, 3, 5, 5, 4, 8, 9])
    z = (tied.s - 1) / math.sqrt((9 * 8 * 23 - 2 * 2 * 1 * 9) / 18)
    assert tied.p == pytest.approx(math.erfc(z / math.sqrt(2)))


def test_the_nile_changes_after_1898():
    found = change_point(NILE)
    assert 1871 + found.after == 1899
    assert found.p < 0.001
    assert found.before_median > found.after_median

    def u(t):
        return sum((y > x) - (y < x) for x in NILE[:t] for y in NILE[t:])

    assert found.statistic == max(abs(u(t)) for t in range(1, len(NILE)))


def test_change_point_small_series_try_every_order():
    found = change_point([1.0, 1.1, 1.2, 5.0, 5.1, 5.2])
    assert (found.after, found.before_median, found.after_median) == (3, 1.1, 5.1)
    # |U_3| = 9 is reached by the orders that put the three low ones first, or last.
    assert found.p == pytest.approx(2 * 36 / 720)
    assert change_point([1, 2, 3]) is None
    assert change_point([2.0] * 9).p == 1


def test_a_change_is_found_and_noise_is_not():
    assert share(change_point, [noisy(seed, 10) for seed in range(200)]) < 0.09
    shifted = [[x * (1 + 0.12 * (i >= 5)) for i, x in enumerate(noisy(s, 10))] for s in range(50)]
    assert share(change_point, shifted) > 0.9


@pytest.mark.parametrize("series_test", [mann_kendall, change_point, two_modes])
def test_units_do_not_matter(series_test):
    values = noisy(3, 11, step=0.2)
    assert series_test(values).p == series_test([1000 * x for x in values]).p


@pytest.mark.parametrize("series_test", [mann_kendall, change_point])
def test_a_monotone_transform_changes_nothing(series_test):
    values = noisy(5, 9)
    assert series_test(values).p == series_test([math.exp(9 * x) for x in values]).p


def test_reversal_mirrors_trend_and_change():
    values = noisy(8, 9, step=0.1, every=3)
    assert mann_kendall(values).s == -mann_kendall(values[::-1]).s
    forth, back = change_point(values), change_point(values[::-1])
    assert forth.statistic == back.statistic


def test_two_clumps_are_found_whatever_their_order():
    values = noisy(1, 12, sigma=0.01, step=0.25)
    found = two_modes(values)
    assert found.p < 0.01
    assert (len(found.low), len(found.high)) == (6, 6)
    assert found.gap == pytest.approx(0.25, abs=0.03)
    assert two_modes(sorted(values)) == found
    assert share(two_modes, [noisy(s, 10, sigma=0.02, step=0.18) for s in range(50)]) > 0.9


def test_bells_tails_and_outliers_are_one_clump():
    rng = random.Random(4)
    assert share(two_modes, [noisy(seed, 10, sigma=0.2) for seed in range(200)]) <= 0.05
    tails = [[5 + rng.expovariate(1) for _ in range(12)] for _ in range(200)]
    assert share(two_modes, tails) < 0.09
    outlier = noisy(2, 10, sigma=0.01)
    outlier[4] *= 3
    assert two_modes(outlier).p > 0.05
    assert two_modes([1.0] * 8) is None
    assert two_modes([1, 2, 3, 4, 5]) is None
    assert two_modes([0.0, 1, 2, 3, 4, 5]) is None


def test_variance_components_as_published_by_shrout_and_fleiss():
    ratings = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    found = components(ratings)
    assert found.icc == pytest.approx(0.17, abs=0.005)  # their table 4, ICC(1,1)
    assert found.f == pytest.approx(1.79, abs=0.01)
    from scipy.stats import f_oneway

    assert found.p == pytest.approx(f_oneway(*ratings).pvalue)
    assert components([list(reversed(row)) for row in reversed(ratings)]).icc == pytest.approx(
        found.icc
    )


def test_variance_components_recover_what_was_put_in():
    rng = random.Random(11)
    runs = []
    for size in itertools.islice(itertools.cycle([6, 8, 10]), 300):
        level = rng.gauss(10, 0.2)
        runs.append([rng.gauss(level, 0.4) for _ in range(size)])
    found = components(runs)
    assert found.between_cv == pytest.approx(0.02, rel=0.15)
    assert found.within_cv == pytest.approx(0.04, rel=0.05)


def test_variance_components_need_groups():
    assert components([[1.0, 2.0]]) is None
    assert components([[1.0], [2.0]]) is None
    assert components([[1.0, 2.0], []]) is None
    same = components([[2.0, 2.0], [2.0, 2.0]])
    assert (same.between, same.icc, same.p) == (0, 0, 1)
    assert components([[1.0, 1.0], [2.0, 2.0]]).p == 0


def test_effects_and_their_intervals():
    base = [1.0, 1.01, 1.02, 0.99, 0.98, 1.03, 1.0]
    other = [1.1 * x for x in base]
    ratio = ratio_of_medians(base, other)
    assert ratio.value == pytest.approx(1.1)
    assert ratio.low < 1.1 < ratio.high
    assert ratio.method == "BCa"
    shift = difference_of_medians(base, other)
    assert shift.value == pytest.approx(0.1)
    assert shift.low <= shift.value <= shift.high
    assert difference_of_medians(base, base[::-1]).value == 0
    scaled = ratio_of_medians([60 * x for x in base], [60 * x for x in other])
    assert scaled.low == pytest.approx(ratio.low)


def test_effects_without_spread_or_with_few_repeats_say_so():
    assert ratio_of_medians([1.0] * 6, [2.0] * 6).method == "percentile"
    assert ratio_of_medians([1.0] * 6, [2.0] * 6).high == 2
    few = ratio_of_medians([1.0] * 5, [2.0] * 9)
    assert (few.low, few.high) == (None, None)
    assert "n < 6" in few.method


def test_the_interval_of_a_ratio_covers_the_truth():
    covered = 0
    for seed in range(150):
        found = ratio_of_medians(noisy(seed, 10, 0.04), [1.1 * x for x in noisy(-seed, 10, 0.04)])
        covered += found.low <= 1.1 <= found.high
    assert covered / 150 > 0.9


def test_half_width_is_a_share_of_the_median_and_needs_six():
    assert spread([1, 2, 3, 4, 5, 6]).half_width == pytest.approx(2.5 / 3.5)
    assert spread([1, 2, 3, 4, 5]).half_width is None


def test_repeats_for_a_width_give_that_width():
    n = repeats_for_width(noisy(1, 30, sigma=0.04), 0.02)
    assert 15 < n < 40
    widths = [spread(noisy(seed, n, sigma=0.04)).half_width for seed in range(200)]
    assert median(widths) == pytest.approx(0.02, rel=0.25)
    assert repeats_for_width([1.0, 1.0, 1.0], 0.01) == 6
    assert repeats_for_width([1.0, 1.1], 0.01) is None


def test_repeats_to_find_a_loss_find_it():
    from savemark.stats import mann_whitney

    n = repeats_to_find(0.05, sigma=0.04)
    found = [
        mann_whitney(noisy(seed, n, 0.04), [1.05 * x for x in noisy(-seed - 1, n, 0.04)]) < 0.05
        for seed in range(200)
    ]
    assert sum(found) / 200 == pytest.approx(0.9, abs=0.08)
    assert repeats_to_find(0.9, 0.01, comparisons=19) >= repeats_needed(19)
    assert repeats_to_find(0.05, 0.04, comparisons=8) > n
