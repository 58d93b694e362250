"""Logs of iozone in throughput mode (`-t`): what a disk does, by two clocks.

"Children see" adds up what each process measured until its last call returned; "Parent sees"
divides the same bytes by the time until all children had closed their files and ended, so it holds
write-back that the children did not wait for. kB are 1024 bytes.
"""

from __future__ import annotations

import re
from pathlib import Path

from savemark.errors import usage
from savemark.records.imported import PROBE, Imported
from savemark.records.run import Json
from savemark.tools.source import Source

NAME = "iozone"
WHAT = "logs of iozone -t"
# What iozone calls a test, and what its phase is called here.
TESTS = {
    "initial writers": "write",
    "rewriters": "rewrite",
    "readers": "read",
    "re-readers": "reread",
    "random readers": "random_read",
    "random writers": "random_write",
}
SEEN = re.compile(
    r"(Children see|Parent sees) throughput for\s+(\d+)\s+([a-z -]+?)\s*=\s*([\d.]+) kB/sec"
)
KB = 1024


def recognises(source: Source) -> bool:
    """Whether iozone says its name, and that it measured throughput."""
    return (
        "Iozone: Performance Test of File I/O" in source.text
        and "Throughput test with" in source.text
    )


def parse(source: Source) -> Imported:
    """Return one entry with a phase per test."""
    path, text = source.path, source.text
    command = _one(text, r"Command line used: (.+)") or ""
    seen: dict[str, dict[str, float]] = {}
    for who, _, test, rate in SEEN.findall(text):
        seen.setdefault(test, {})[who.split()[0]] = float(rate) * KB
    phases = [
        _phase(path, text, TESTS[test], rates) for test, rates in seen.items() if test in TESTS
    ]
    if not phases:
        raise usage(f"{path}: no throughput in it", "was iozone stopped before its first result?")
    unknown = [test for test in seen if test not in TESTS]
    resolution = _one(text, r"Time Resolution = ([\d.]+) seconds")
    about = {
        "tool": "iozone",
        "tool_version": _one(text, r"Version \$Revision: ([\d.]+)"),
        "command": command.strip() or None,
        "timer_resolution_ns": round(float(resolution) * 1e9) if resolution else None,
    }
    for phase in phases:
        # -e and -c put fsync and close into the time, -o opens with O_SYNC, -I with O_DIRECT.
        phase["contract"] = _contract(command) if "write" in str(phase["name"]) else None
    record = {"trial": {"workload": PROBE}, "source": about, "phases": phases}
    entry = {"role": "trial", "name": "iozone", "repeat": 0, "factors": {}, "record": record}
    notes = [f"passed over the tests {', '.join(unknown)}"] if unknown else []
    return Imported(label="local", entries=[entry], notes=notes)


def _phase(path: Path, text: str, name: str, rates: dict[str, float]) -> Json:
    children, parent = rates.get("Children"), rates.get("Parent")
    if not children:
        raise usage(f"{path}: {name} has no throughput of its children", "the log is damaged")
    size_kb = _one(text, r"Each process writes a (\d+) kByte file")
    workers = _one(text, r"Throughput test with (\d+) process")
    record_kb = _one(text, r"in (\d+) kByte records")
    if not size_kb or not workers:
        raise usage(f"{path}: it does not say what each process writes", "the log is damaged")
    moved = int(size_kb) * KB * int(workers)
    return {
        "name": name,
        "time_base": "wall",
        "user_bytes": moved,
        "elapsed_ns": round(moved / children * 1e9),
        "outer_elapsed_ns": round(moved / parent * 1e9) if parent else None,
        "reported_bytes_per_s": children,
        "worker_count": int(workers),
        "transfer_bytes": int(record_kb) * KB if record_kb else None,
        "dataset_bytes": moved,
    }


def _contract(command: str) -> str:
    flags = set(command.split())
    if "-o" in flags:
        return "each"
    return "end" if "-e" in flags else "none"


def _one(text: str, pattern: str) -> str | None:
    found = re.search(pattern, text)
    return found[1] if found else None
