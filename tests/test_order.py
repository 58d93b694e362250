"""Blocks are balanced for place and for carry-over, and come again with their seed."""

import itertools
import random
from collections import Counter

import pytest

from savemark.study.order import blocks, williams


def places(rows):
    """How often each treatment has each place."""
    return Counter((place, one) for row in rows for place, one in enumerate(row))


def follows(rows):
    """How often each treatment comes right after each other one."""
    return Counter(pair for row in rows for pair in itertools.pairwise(row))


@pytest.mark.parametrize("k", range(1, 17))
def test_a_square_is_balanced_for_place_and_for_carry_over(k):
    rows = williams(k)
    assert len(rows) == (k if k % 2 == 0 else 2 * k)
    assert all(sorted(row) == list(range(k)) for row in rows)
    assert set(places(rows).values()) == {len(rows) // k}
    assert len(places(rows)) == k * k
    assert len(follows(rows)) == k * (k - 1)
    assert k == 1 or set(follows(rows).values()) == {len(rows) // k}


@pytest.mark.parametrize(("k", "repeats"), [(1, 3), (4, 4), (4, 8), (5, 10), (6, 18)])
def test_blocks_of_whole_squares_are_balanced_too(k, repeats):
    rows = blocks(k, repeats, random.Random(1))
    assert len(rows) == repeats
    assert set(places(rows).values()) == {repeats // k}
    assert len(set(follows(rows).values())) == (0 if k == 1 else 1)


def test_fewer_blocks_than_a_square_has_rows_are_rows_of_one():
    """38 entries in 5 blocks: nothing has a place twice, and no pair follows twice."""
    rows = blocks(38, 5, random.Random(2))
    assert all(sorted(row) == list(range(38)) for row in rows)
    assert set(places(rows).values()) == {1}
    assert set(follows(rows).values()) == {1}


def test_the_same_seed_gives_the_same_first_blocks():
    few, many = (blocks(5, repeats, random.Random(3)) for repeats in (6, 23))
    assert many[:6] == few
    assert blocks(5, 6, random.Random(4)) != few


def test_every_order_of_two_comes_in_half_of_the_blocks():
    rows = blocks(2, 1000, random.Random(5))
    assert rows.count([0, 1]) == rows.count([1, 0]) == 500
    firsts = [rows[i] for i in range(0, 1000, 2)]
    assert 200 < firsts.count([0, 1]) < 300, "which comes first is drawn"


def test_no_treatment_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        williams(0)
