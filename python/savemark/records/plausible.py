"""The last look at what a reader returns: no number that nothing could have measured."""

from __future__ import annotations

from collections.abc import Iterator

from savemark.errors import usage
from savemark.records.run import Json
from savemark.tools.source import Source

# What a column holds: 64 bits with a sign.
MOST = 2**63 - 1


def refuse_nonsense(source: Source, entries: list[Json]) -> None:
    """Refuse times, amounts and rates that are negative, infinite or not numbers, as damage."""
    for entry in entries:
        for phase in (entry.get("record") or {}).get("phases") or []:
            if phase.get("elapsed_ns") == 0 and (
                phase.get("user_bytes") or phase.get("operations")
            ):
                phase["elapsed_ns"] = None  # less than the tool's clock can tell is no time at all
            for name, value in _numbers(phase):
                if not 0 <= value <= MOST:  # which NaN is not either
                    raise usage(
                        f"{source.path}: {phase.get('name')}: {name} would be {str(value)[:20]}",
                        "the file is damaged, or no result of its tool",
                    )


def _numbers(part: Json) -> Iterator[tuple[str, int | float]]:
    for name, value in part.items():
        if isinstance(value, dict):
            yield from _numbers(value)
        elif isinstance(value, list):
            for each in value:
                yield from _numbers(each if isinstance(each, dict) else {name: each})
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield name, value
