"""gdsio: the line that it prints at the end. KiB and GiB are what they say."""

from __future__ import annotations

import re

from savemark.errors import usage
from savemark.records.imported import Imported
from savemark.records.run import Json
from savemark.tools._numbers import GIB, KIB, NS_PER_S, times
from savemark.tools.source import Source

NAME = "gdsio"
WHAT = "result lines of gdsio"
LINE = re.compile(
    r"IoType: (\w{1,20}) XferType: (\S{1,20}) Threads: (\d{1,9}) "
    r"DataSetSize: (\d{1,18})/(\d{1,18})\(KiB\) IOSize: ([\d-]{1,40})\((\w{1,3})\) "
    r"Throughput: ([\d.]{1,20}) GiB/sec, Avg_Latency: ([\d.]{1,20}) usecs "
    r"ops: (\d{1,18}) total_time ([\d.]{1,20}) secs"
)
PHASES = {"READ": "read", "WRITE": "write", "RANDREAD": "random_read", "RANDWRITE": "random_write"}
UNITS = {"KiB": KIB, "MiB": KIB * KIB, "B": 1}


def recognises(source: Source) -> bool:
    """Whether a line names its type of transfer."""
    return "IoType: " in source.text and " XferType: " in source.text


def parse(source: Source) -> Imported:
    """Return an entry per line."""
    lines = LINE.finditer(source.text)
    entries = source.few(_entry(source, *match.groups()) for match in lines)
    if not entries:
        raise usage(f"{source.path}: no whole result line of gdsio in it", "was it cut off?")
    return Imported(entries=entries)


def _entry(source: Source, kind: str, path: str, *words: str) -> Json:
    threads, done, whole_set, size, unit, rate, latency, operations, seconds = words
    elapsed = times(seconds, NS_PER_S)
    speed = times(rate, GIB)
    if not elapsed or speed is None or kind not in PHASES:
        raise usage(f"{source.path}: gdsio's line of {kind} has no time, or is of no known kind")
    moved = int(done) * KIB
    # IOSize may be a range: then no single transfer size belongs to the operations.
    transfer = int(size) * UNITS.get(unit, KIB) if size.isdigit() else None
    phase: Json = {"name": PHASES[kind], "time_base": "wall", "elapsed_ns": elapsed}
    phase |= {"user_bytes": moved, "stored_bytes": moved, "operations": int(operations)}
    phase |= {"worker_count": int(threads), "transfer_bytes": transfer}
    phase |= {"dataset_bytes": int(whole_set) * KIB, "reported_bytes_per_s": speed}
    phase["latency"] = {"mean_ns": times(latency, 1000)}
    if kind.endswith("WRITE"):
        phase["contract"] = "none"
    factors = {"operation": PHASES[kind], "transfer": path, "workers": int(threads)}
    factors |= {"transfer_size": transfer} if transfer else {}
    # All of its ways but the CPU's through the page cache open with O_DIRECT.
    record = {"trial": {}, "source": {"tool": NAME}, "phases": [phase]}
    return {"role": "trial", "name": NAME, "factors": factors, "record": record}
