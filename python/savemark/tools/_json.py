"""JSON as result files hold it: behind warnings, several in a row, with a bracket too many."""

from __future__ import annotations

import json
from typing import Any

from savemark import limits
from savemark.errors import usage
from savemark.tools.source import Source

# A file that fails this often is no JSON behind junk, and each try may read to its end.
TRIES = 20


def objects(source: Source) -> list[dict[str, Any]]:
    """Return the top-level objects of the text in their order; what stands between is passed over.

    Of a key that is there twice the last counts; NaN and Infinity are null. Returns nothing where
    there is no whole object.
    """
    limit_values(source)
    decoder = json.JSONDecoder(parse_constant=lambda _: None)
    values: list[dict[str, Any]] = []
    text, place, failed = source.text, 0, 0
    while (place := text.find("{", place)) >= 0 and failed < TRIES:
        try:
            value, place = decoder.raw_decode(text, place)
        except ValueError:  # damaged, or a number of thousands of digits
            place, failed = place + 1, failed + 1
        except RecursionError:
            raise usage(f"{source.path}: nested too deeply to be a result file") from None
        else:
            values.append(value)
    return values


def limit_values(source: Source) -> None:
    """Refuse a text that would be too many values; each is large in memory, however short."""
    source.limit(sum(source.text.count(mark) for mark in ",[{"), limits.MOST_VALUES, "values")


def part(value: Any) -> dict[str, Any]:
    """Return an object as it is, and anything else as an empty one."""
    return value if isinstance(value, dict) else {}


def parts(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list; an object alone is a list of one."""
    if isinstance(value, dict):
        return [value]
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
