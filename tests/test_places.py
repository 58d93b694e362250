"""A race on simulated places says nothing wrong more often than it promises; bench/places.py."""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "bench"))

from places import PLACES, counted, run, shown_above, truths

RUNS = 100


@pytest.fixture(scope="module")
def counts():
    return {
        name: counted([run(place, f"{name} {number}") for number in range(RUNS)])
        for name, place in PLACES.items()
    }


@pytest.mark.parametrize("name", PLACES)
def test_a_race_is_rarely_wrong_and_hardly_ever_with_trust(counts, name):
    assert shown_above(counts[name], RUNS) == []
    assert counts[name]["missed"] <= 7, "the intervals hold the truth in 95 of 100"


def test_most_races_on_a_quiet_place_are_trusted_and_few_on_others(counts):
    trusted = {name: found["trusted"] for name, found in counts.items()}
    assert trusted.pop("quiet") > 0.8 * RUNS
    assert all(count < 0.5 * RUNS for count in trusted.values())


def test_a_place_has_twelve_settings_of_which_one_is_the_best():
    times = truths(random.Random(1))
    assert (len(times), min(times.values())) == (12, 1.0)
