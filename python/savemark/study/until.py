"""When a run may stop repeating a setting: `ci<3%`."""

from __future__ import annotations

import re

from savemark.errors import usage

# Below six repeats no interval of a median reaches 95 % (stats/spread.py).
LEAST_REPEATS = 6
# How often a setting is repeated at most where nothing else is said.
MOST_REPEATS = 30


def parse(text: str) -> float:
    """Return the share in `ci<3%`: half the 95 % interval of every median is below it."""
    rule = re.fullmatch(r"ci\s*<\s*(\d+(?:\.\d*)?|\.\d+)\s*%", text.strip())
    share = float(rule[1]) / 100 if rule else 0.0
    if not 0 < share < 1:
        hint = "ci<3% repeats until each median is known to ±3 %"
        raise usage(f"until: `{text}` is not a rule", hint)
    return share
