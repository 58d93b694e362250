"""nixlbench: its table of block size, batch, bandwidth and latencies, under its configuration.

The table has rates and the time of one transfer, and no time of the whole: what cannot be known
from it stays empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from savemark.errors import usage
from savemark.records.imported import Imported
from savemark.records.run import Json
from savemark.tools._numbers import GIB, number, times, whole
from savemark.tools.source import Source

NAME = "nixlbench"
WHAT = "table of nixlbench"
HEADER = re.compile(
    r"^Block Size \(B\)\s+Batch Size\s+.*B/W \((GB|GiB|MB|MiB)/[Ss]ec\)", re.MULTILINE
)
UNITS = {"GB": 10**9, "GiB": GIB, "MB": 10**6, "MiB": 1 << 20}
SETTING = re.compile(r"^([A-Z][A-Za-z /]{2,40}?)\s*(?:\([^)]{0,80}\))?\s*:\s*(\S.{0,200}?)\s*$")
FACTORS = {
    "Backend": "backend",
    "Op type": "operation",
    "Scheme": "scheme",
    "Num threads": "workers",
}
LATENCY = {"mean_ns": "Avg Lat. (us)", "p99_ns": "P99 Tx (us)"}


def recognises(source: Source) -> bool:
    """Whether it has the table's header."""
    return bool(HEADER.search(source.text))


def parse(source: Source) -> Imported:
    """Return an entry per line of the table."""
    entries = source.few(_lines(source))
    if not entries:
        raise usage(f"{source.path}: nixlbench's table is empty", "was it stopped?")
    return Imported(entries=entries)


def _lines(source: Source) -> Iterator[Json]:
    shown: dict[str, str] = {}
    columns: list[str] = []
    unit = 1
    for line in source.lines:
        header = HEADER.match(line)
        if header:
            columns, unit = re.split(r"\s{2,}", line.strip()), UNITS[header[1]]
        elif not columns:
            pair = SETTING.match(line)
            shown |= {pair[1].strip(): pair[2]} if pair else {}
        elif re.match(r"\s*\d", line):
            words = line.split()
            if len(words) != len(columns):
                wrong = f"a line of nixlbench has {len(words)} fields, not {len(columns)}"
                raise usage(f"{source.path}: {wrong}")
            yield _entry(source, dict(zip(columns, words, strict=True)), shown, unit)


def _entry(source: Source, row: dict[str, str], shown: dict[str, str], unit: int) -> Json:
    block = whole(row.get("Block Size (B)", ""))
    rate = next((number(word) for name, word in row.items() if name.startswith("B/W")), None)
    if block is None or rate is None:
        raise usage(f"{source.path}: a line of nixlbench without block size or bandwidth")
    factors: Json = {ours: shown[name] for name, ours in FACTORS.items() if name in shown}
    factors = {name: level if (n := whole(level)) is None else n for name, level in factors.items()}
    factors["transfer_size"] = block
    if "Batch Size" in row:
        factors["batch"] = whole(row["Batch Size"])
        if factors["batch"] is None:
            raise usage(f"{source.path}: nixlbench's batch size is `{row['Batch Size']}`")
    writes = shown.get("Op type", "").upper() == "WRITE"
    phase: Json = {"name": "write" if writes else "read", "time_base": "wall", "elapsed_ns": None}
    phase |= {"transfer_bytes": block, "reported_bytes_per_s": rate * unit}
    phase["latency"] = {
        ours: times(row[theirs], 1000) for ours, theirs in LATENCY.items() if theirs in row
    }
    phase |= {"contract": "unknown"} if writes else {}
    record = {"trial": {}, "source": {"tool": NAME}, "phases": [phase]}
    return {"role": "trial", "name": NAME, "factors": factors, "record": record}
