"""Numbers from result files: what is not there, or is no number, is None and never zero."""

from __future__ import annotations

import math
import re
from typing import Any

NS_PER_S = 1_000_000_000
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
BINARY = {"": 1, "k": KIB, "m": MIB, "g": GIB, "t": 1 << 40, "p": 1 << 50}
DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
MOST_DIGITS = 40
# Beyond these no product or quotient of two numbers is safe, and nothing was ever measured.
LEAST, MOST = 1e-30, 1e30
MOST_WHOLE = 18  # digits of a whole number that a column holds
MOST_S = 10**12  # no measurement takes thirty thousand years


def number(value: Any) -> float | None:
    """Return a number that can be reckoned with, also of text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and not value[:MOST_DIGITS].strip():
        return None
    try:
        parsed = float(value)
    except (ValueError, OverflowError):
        return None
    if abs(parsed) < LEAST:
        return 0.0
    return parsed if abs(parsed) < MOST else None


def whole(value: Any) -> int | None:
    """Return a whole number, also of text or of a float without a fraction; else None."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,40}\s*", value):
        return int(value)
    parsed = number(value)
    return int(parsed) if parsed is not None and parsed == int(parsed) else None


def times(value: Any, factor: float) -> int | None:
    """Return `value` × `factor`, rounded: seconds × NS_PER_S, MiB × MIB."""
    amount = number(value)
    product = math.inf if amount is None else amount * factor
    return round(product) if math.isfinite(product) else None


def rate(amount: float | None, elapsed_ns: float | None) -> float | None:
    """Return `amount` per second."""
    return amount / elapsed_ns * NS_PER_S if amount is not None and elapsed_ns else None


def binary_size(text: Any) -> int | None:
    """Return the bytes of `2m`, `16 MiB` or `47008`: powers of 1024, as IOR says."""
    match = re.fullmatch(r"\s*([0-9.]{1,20})\s*([kmgtp]?)(i?b?|bytes)\s*", str(text).lower())
    return times(match[1], BINARY[match[2]]) if match else None
