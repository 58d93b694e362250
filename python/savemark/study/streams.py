"""The level `auto` of the factor `streams`: as many as keep the cores of this machine at work."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from savemark.study.keys import AUTO

NAME = "streams"
# Two per core, so that one encodes while another waits; more than 16 bring nothing to one disk.
PER_CORE, MOST = 2, 16


def settled(levels: Sequence[Any]) -> list[Any]:
    """Return the levels with `auto` as a number, which is left out where it is listed already."""
    usable = len(os.sched_getaffinity(0))
    counts = [min(MOST, PER_CORE * usable) if level == AUTO else level for level in levels]
    return list(dict.fromkeys(counts)) if AUTO in levels else counts
