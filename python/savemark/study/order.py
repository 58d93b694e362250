"""The order of trials within blocks, balanced for what a trial leaves behind."""

from __future__ import annotations

import random


def williams(k: int) -> list[list[int]]:
    """Return a Williams square of `k` treatments, 0 to k - 1; a row is the order of one block.

    Each treatment has each place equally often and comes equally often right after each other one,
    so neither a drift over a block nor what a trial leaves behind favours any. Even `k`: k rows;
    odd: 2·k, the second half being the first from right to left.
    Source: Williams, Australian Journal of Scientific Research A 2 (1949) 149.
    """
    return [_row(k, number) for number in range(_rows(k))]


def blocks(k: int, repeats: int, rng: random.Random) -> list[list[int]]:
    """Return the orders of `repeats` blocks of `k` treatments: rows of random Williams squares.

    The treatments are numbered at random, and so are the rows of a square; when its rows are used
    up, another one begins. Fewer blocks than a square has rows are balanced as far as chance has
    it. The same seed gives the same first blocks, however many are asked for.
    """
    orders: list[list[int]] = []
    while len(orders) < repeats:
        names, numbers = list(range(k)), list(range(_rows(k)))
        rng.shuffle(names)
        rng.shuffle(numbers)
        for number in numbers[: repeats - len(orders)]:
            orders.append([names[treatment] for treatment in _row(k, number)])
    return orders


def _rows(k: int) -> int:
    if k < 1:
        raise ValueError("a square needs at least one treatment")
    return k if k % 2 == 0 else 2 * k


def _row(k: int, number: int) -> list[int]:
    """Return row `number`: 0, 1, k - 1, 2, k - 2, …, all shifted by it."""
    steps = ((place + 1) // 2 * (1 if place % 2 else -1) for place in range(k))
    row = [(step + number) % k for step in steps]
    return row if number < k else row[::-1]
