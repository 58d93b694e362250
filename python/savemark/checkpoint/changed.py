"""Names what of a state changed while it was saved: the engine knows bytes, users know entries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from savemark.errors import SavemarkError

# Small arrays share a chunk, and any of them may be the one.
MOST_NAMES = 3


def explained(error: BaseException, index: bytes) -> SavemarkError | None:
    """Return the engine's error with names of entries, where it is about bytes of the data."""
    span = getattr(error, "range", None)
    if span is None:
        return None
    names = list(entries(json.loads(index)["tree"], "state", *span))
    if not names:
        return None
    several = len(names) > 1
    named = ", ".join(names[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES} others beside them" if len(names) > MOST_NAMES else ""
    return SavemarkError(
        "failed",
        f"{'one of ' if several else ''}{named}{more} was written to while it was saved. "
        "Nothing was replaced",
        "let nothing write to the state until save returns, or save a copy of it",
    )


def entries(node: dict[str, Any], where: str, start: int, stop: int) -> Iterator[str]:
    """Yield the names of what has bytes from `start` to `stop` of the data."""
    if node["kind"] == "dict":
        for key, item in node["items"]:
            yield from entries(item, f"{where}[{key!r}]", start, stop)
    elif node["kind"] in ("list", "tuple"):
        for number, item in enumerate(node["items"]):
            yield from entries(item, f"{where}[{number}]", start, stop)
    elif "offset" in node and node["offset"] < stop and start < node["offset"] + node["bytes"]:
        yield where
