"""Units as people write them: how much of the base unit (bytes, seconds, 1) one of each is."""

from __future__ import annotations

BYTES = {
    "": 1.0,
    "B": 1.0,
    **{f"{letter}B": 1000.0**n for n, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}iB": 1024.0**n for n, letter in enumerate("KMGTPE", 1)},
}
SPANS = {
    "": 1.0,
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
COUNTS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
# What a speed is said in: bytes per second, operations per second.
RATES = {f"{unit}/s": size for unit, size in BYTES.items() if unit}
OPERATIONS = {
    f"{prefix}{unit}": size
    for prefix, size in {"": 1.0, "k": 1e3, "M": 1e6}.items()
    for unit in ("IOPS", "op/s")
}
