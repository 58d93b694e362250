"""Distributions and timelines of several ranks as one, from counts; no raw sample travels."""

from __future__ import annotations

import math
from typing import Any

Json = dict[str, Any]

QUANTILES = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p99_9_ns": 0.999, "p99_99_ns": 0.9999}


def merge(one: Json, other: Json) -> Json:
    """Add two distributions, as the engine's histogram adds those of two workers."""
    counts = dict(zip(one["values"], one["counts"], strict=True))
    for value, count in zip(other["values"], other["counts"], strict=True):
        counts[value] = counts.get(value, 0) + count
    values = sorted(counts)
    return {
        "values": values,
        "counts": [counts[value] for value in values],
        "sum_ns": one["sum_ns"] + other["sum_ns"],
        "min_ns": min(one["min_ns"], other["min_ns"]),
        "max_ns": max(one["max_ns"], other["max_ns"]),
    }


def summary(counted: Json) -> Json | None:
    """Return the record of a distribution; None where nothing was counted."""
    total = sum(counted["counts"])
    if not total:
        return None
    low, high = counted["min_ns"], counted["max_ns"]
    record = {"count": total, "min_ns": low, "mean_ns": counted["sum_ns"] // total}
    for name, share in QUANTILES.items():
        # A bucket's upper edge may lie beyond the largest value seen.
        record[name] = min(max(_at(counted, max(1, math.ceil(share * total))), low), high)
    return {**record, "max_ns": high}


def _at(counted: Json, wanted: int) -> int:
    """Return the value below which so many lie."""
    seen = 0
    for value, count in zip(counted["values"], counted["counts"], strict=True):
        seen += count
        if seen >= wanted:
            return int(value)
    return int(counted["values"][-1])


def timeline(one: Json, other: Json) -> Json:
    """Add two timelines since their own starts; intervals have doubled as often as they had to."""
    while one["interval_ns"] < other["interval_ns"]:
        one = _folded(one)
    while other["interval_ns"] < one["interval_ns"]:
        other = _folded(other)
    count = max(len(one["bytes"]), len(other["bytes"]))
    padded = [line["bytes"] + [0] * (count - len(line["bytes"])) for line in (one, other)]
    sums = [a + b for a, b in zip(*padded, strict=True)]
    return {"interval_ns": one["interval_ns"], "bytes": sums}


def until(line: Json, at_ns: int) -> float:
    """Return the bytes up to a time, evenly spread over an interval."""
    whole, part = divmod(at_ns, max(1, line["interval_ns"]))
    rest = line["bytes"][whole] if whole < len(line["bytes"]) else 0
    return float(sum(line["bytes"][:whole]) + rest * part / max(1, line["interval_ns"]))


def _folded(line: Json) -> Json:
    pairs = [sum(line["bytes"][at : at + 2]) for at in range(0, len(line["bytes"]), 2)]
    return {"interval_ns": 2 * line["interval_ns"], "bytes": pairs}
