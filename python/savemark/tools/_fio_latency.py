"""Latency as fio writes it: in ns or µs, as percentiles, as bins, of one job or of several."""

from __future__ import annotations

from typing import Any

from savemark.records.run import Json
from savemark.tools._json import part
from savemark.tools._numbers import number, whole

PERCENTILES = {"p50_ns": 50.0, "p90_ns": 90.0, "p99_ns": 99.0, "p99_9_ns": 99.9}
# The whole time of an I/O, or its time in the device; fio has the percentiles of one of them.
KINDS = ("lat_ns", "clat_ns", "lat", "clat")


def latency(sides: list[Json]) -> Json | None:
    """Return the latencies of some jobs as one; percentiles of several only from their bins."""
    kinds = [kind for kind in KINDS if any(_count(part(side.get(kind))) for side in sides)]
    detailed = [
        kind for kind in kinds if any({"percentile", "bins"} & {*part(s.get(kind))} for s in sides)
    ]
    if not kinds:
        return None
    kind = (detailed or kinds)[0]
    scale = 1 if kind.endswith("_ns") else 1000
    each = [part(side.get(kind)) for side in sides]
    summary = _moments([one for one in each if _count(one)], scale)
    if len(each) == 1 and "percentile" in each[0]:
        points = _points(part(each[0]["percentile"]))
        return summary | {
            name: round(points[wanted] * scale)
            for name, wanted in PERCENTILES.items()
            if wanted in points
        }
    return summary | _of_bins(each, scale)


def _count(one: Json) -> int:
    """Return how many were counted; fio 2 does not say, but leaves zeros where there were none."""
    return whole(one.get("N")) or int(bool(number(one.get("max"))))


def _moments(each: list[Json], scale: int) -> Json:
    counts = [whole(one.get("N")) or 0 for one in each]
    lows = [low for one in each if (low := number(one.get("min"))) is not None]
    highs = [high for one in each if (high := number(one.get("max"))) is not None]
    means = [number(one.get("mean")) or 0.0 for one in each]
    summary: Json = {"count": sum(counts) or None}
    summary["min_ns"] = round(min(lows) * scale) if lows else None
    summary["max_ns"] = round(max(highs) * scale) if highs else None
    if sum(counts):
        mean = sum(mean * n for mean, n in zip(means, counts, strict=True)) / sum(counts)
    else:
        mean = sum(means) / len(means)
    return summary | {"mean_ns": round(mean * scale)}


def _points(percentiles: dict[str, Any]) -> dict[float, float]:
    """Return the percentiles that were asked for; fio 2 fills the list up with 0.00."""
    pairs = ((number(name), number(value)) for name, value in percentiles.items())
    return {name: value for name, value in pairs if name and value is not None}


def _of_bins(each: list[Json], scale: int) -> Json:
    bins: dict[float, int] = {}
    for one in each:
        for name, value in part(one.get("bins")).items():
            place, counted = number(name), whole(value)
            if place is not None and counted is not None and counted > 0:
                bins[place] = bins.get(place, 0) + counted
    total = sum(bins.values())
    quantiles: Json = {}
    for name, wanted in PERCENTILES.items() if total else ():
        passed = 0
        for place in sorted(bins):
            passed += bins[place]
            if passed >= total * wanted / 100:
                quantiles[name] = round(place * scale)
                break
    return quantiles
