"""github-action-benchmark: `data.js`, the history that storage projects keep beside their pages.

Each value is one run of one benchmark at one commit; the commits are its repeats, in the order of
their dates. Values are times, rates of bytes or rates of operations by their unit; what is neither
(a size, a share) is passed over and named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from savemark.errors import usage
from savemark.records.imported import Imported
from savemark.records.run import Json
from savemark.tools._json import objects, part, parts
from savemark.tools._numbers import BINARY, DECIMAL, number, whole
from savemark.tools.source import Source

NAME = "github-benchmark"
WHAT = "data.js of github-action-benchmark"
TIMES = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "milliseconds": 10**6,
    "s": 10**9,
    "sec": 10**9,
    "seconds": 10**9,
}
# `ns/iter` and `ns/op` are the time of one; `iter/sec`, `ops/s` and `iops` are how often.
PER_ONE = re.compile(r"(ns|us|µs|ms|s)/(?:iter|op|operation)")
RATES = re.compile(r"([kmg]?)(?:ops|op|iops|iter|req|requests|files|objects)(?:/(?:s|sec|second))?")
BYTES = re.compile(r"([kmgt]?)(i?)(?:b|bytes)(?:/|p)(?:s|sec|second)")


def recognises(source: Source) -> bool:
    """Whether it sets the variable that the action's page reads."""
    return "BENCHMARK_DATA" in source.text[:4096] and '"entries"' in source.text


def parse(source: Source) -> Imported:
    """Return an entry per benchmark and commit."""
    result = next((each for each in objects(source) if "entries" in each), None)
    if result is None:
        raise usage(f"{source.path}: data.js is cut off")
    suites = part(result["entries"])
    strange: set[str] = set()
    entries = source.few(_entries(suites, strange))
    if not entries:
        raise usage(
            f"{source.path}: no time and no rate in data.js", f"its units: {sorted(strange)}"
        )
    notes = [f"passed over values in {', '.join(sorted(strange))}"] if strange else []
    return Imported(entries=entries, notes=notes)


def _entries(suites: Json, strange: set[str]) -> Iterator[Json]:
    for suite, runs in suites.items():
        for run in sorted(parts(runs), key=lambda run: whole(run.get("date")) or 0):
            for bench in parts(run.get("benches")):
                phase = _phase(bench)
                if phase is None:
                    strange.add(str(bench.get("unit"))[:40])
                    continue
                about: Json = {"tool": NAME, "message": part(run.get("commit")).get("id")}
                record: Json = {"trial": {}, "source": about, "phases": [phase]}
                date = whole(run.get("date"))
                record["finished_unix_ns"] = date * 10**6 if date and date > 0 else None
                factors: Json = {"suite": suite, "benchmark": str(bench.get("name"))[:200]}
                yield {"role": "trial", "name": NAME, "factors": factors, "record": record}


def _phase(bench: Json) -> Json | None:
    value, unit = number(bench.get("value")), str(bench.get("unit", "")).strip()
    if value is None or value < 0:
        return None
    name = str(bench.get("name", "")).lower()
    kind = "write" if "write" in name else "read" if "read" in name else "run"
    phase: Json = {"name": kind, "time_base": "wall", "elapsed_ns": None}
    return phase | known if (known := _known(value, unit)) else None


def _known(value: float, unit: str) -> dict[str, Any] | None:
    """Return what a value with its unit says, in base units; MB is decimal and MiB is not."""
    plain = unit.lower().replace(" ", "")
    each = PER_ONE.fullmatch(plain)
    if plain in TIMES or each:
        return {"elapsed_ns": round(value * TIMES[each[1] if each else plain])}
    moved = BYTES.fullmatch(plain)
    if moved:
        return {"reported_bytes_per_s": value * (BINARY if moved[2] else DECIMAL)[moved[1]]}
    often = RATES.fullmatch(plain)
    return {"reported_ops_per_s": value * DECIMAL[often[1]]} if often else None
