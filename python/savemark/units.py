"""Units as people write them: how much of the base unit (bytes, seconds, 1) one of each is."""

from __future__ import annotations

import math

# As the engine reads sizes (crates/base/src/size.rs): kB, MB … are powers of 1000; KiB, MiB … and
# a letter alone are powers of 1024.
LETTERS = "KMGTP"
BYTES = {
    "": 1.0,
    "B": 1.0,
    **{f"{letter}B": 1000.0**n for n, letter in enumerate("kMGTP", 1)},
    **{f"{letter}iB": 1024.0**n for n, letter in enumerate(LETTERS, 1)},
    **{
        alone: 1024.0**n for n, letter in enumerate(LETTERS, 1) for alone in letter + letter.lower()
    },
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
RATES = {f"{unit}/s": size for unit, size in BYTES.items() if unit.endswith("B")}
OPERATIONS = {
    f"{prefix}{unit}": size
    for prefix, size in {"": 1.0, "k": 1e3, "M": 1e6}.items()
    for unit in ("IOPS", "op/s")
}


def size_text(size_bytes: int) -> str:
    """Return the shortest exact form, as the engine writes sizes: 4096 is `4KiB`, 64e6 `64MB`."""
    count, named = str(size_bytes), ""
    for power, letter in enumerate(LETTERS, 1):
        for unit in (f"{letter}iB", f"{'k' if letter == 'K' else letter}B"):
            found, rest = divmod(size_bytes, (1024 if "i" in unit else 1000) ** power)
            if found and not rest and len(str(found)) < len(count):
                count, named = str(found), unit
    return count + named


def gbs(rate: float) -> str:
    """Return bytes per second as decimal GB/s with three significant digits or so.

    The one rule for speeds on a screen, whatever writes them. A dash where no bytes are known: a
    rate of zero would be a lie.
    """
    if not rate:
        return "–"
    value = rate / 1e9
    if value < 0.01:
        return f"{value:.{min(9, 1 - math.floor(math.log10(value)))}f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def rate_text(rate: float) -> str:
    """Return `1.91 GB/s`."""
    return f"{gbs(rate)} GB/s"
