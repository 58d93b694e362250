"""What a run folder must be like before anything is computed from it: its types and ranges.

It is checked once, when it is read, for a file may be damaged and may be anybody's. What is missing
is unknown, and may be; fields that nobody reads here are let through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from savemark import limits, untrusted

Json = dict[str, Any]
Check = Callable[[Any], None]

MOST = 2**63  # a column holds less
# How the names of amounts end; whatever is called so is a number, or unknown.
MOST_KNOWN = 1000  # names of a part that are remembered
UNITS = ("_ns", "_bytes", "_per_s", "_count", "_pages", "_share", "_bits")


class Damaged(ValueError):  # noqa: N818  (as with the others, what happened)
    """A value that cannot be: where it stands, and what should."""


def _wrong(value: Any, wanted: str) -> Damaged:
    shown = untrusted.clean(str(value)[:40]) if isinstance(value, str | int | float) else ""
    return Damaged(f"{shown or type(value).__name__} where {wanted} is wanted")


def number(value: Any) -> None:
    """Whether it is a number of at least 0 that a column holds."""
    if value is None or (type(value) in (int, float) and 0 <= value < MOST):
        return
    raise _wrong(value, "a number of at least 0")


def room(value: Any) -> None:
    """Whether it is the size of a filesystem: buckets that are mounted claim up to 2^64 bytes."""
    if value is not None and not (type(value) is int and 0 <= value < 2**64):
        raise _wrong(value, "a number of bytes")


def whole(value: Any) -> None:
    """Whether it is a whole number of at least 0."""
    if value is None or (type(value) is int and 0 <= value < MOST):
        return
    raise _wrong(value, "a whole number of at least 0")


def text(value: Any) -> None:
    """Whether it is a text."""
    if value is not None and (type(value) is not str or len(value) > limits.LONGEST_MESSAGE):
        raise _wrong(value, "a text")


def label(value: Any) -> None:
    """Whether it can stand as a label, a level or the name of a phase."""
    if value is not None and (type(value) is not str or len(value) > limits.LONGEST_TEXT):
        raise _wrong(value, "a short text")


def flag(value: Any) -> None:
    """Whether it is true or false."""
    if value is not None and type(value) is not bool:
        raise _wrong(value, "true or false")


def scalar(value: Any) -> None:
    """Whether it is a text, a number, true or false."""
    if type(value) is str:
        text(value)
    elif type(value) in (int, float):
        number(abs(value))
    elif value is not None and type(value) is not bool:
        raise _wrong(value, "a single value")


def each(check: Check) -> Check:
    """Return the check of a list of such values; none of them is missing."""

    def of(values: Any) -> None:
        if values is None:
            return
        if type(values) is not list:
            raise _wrong(values, "a list")
        if len(values) > limits.MOST_ITEMS:
            raise Damaged(f"{len(values)} items, where {limits.MOST_ITEMS} are the most")
        for place, value in enumerate(values):
            try:
                if value is None:
                    raise _wrong(value, "a value")
                check(value)
            except Damaged as error:
                raise Damaged(f"[{place}] {error}") from None

    return of


def numbers(values: Any) -> None:
    """Whether it is a list of whole numbers; there may be very many."""
    if values is None:
        return
    if (
        type(values) is not list
        or set(map(type, values)) - {int}
        or len(values) > limits.MOST_ITEMS
    ):
        raise _wrong(values, f"a list of at most {limits.MOST_ITEMS} whole numbers")
    if values and not (min(values) >= 0 and max(values) < MOST):
        raise Damaged("a number that is negative or too large")


def part(fields: Mapping[str, Check], *needed: str, rest: Check | None = None) -> Check:
    """Return the check of an object with these fields, of which the `needed` ones must be there.

    `rest` checks all others; without it, those that end in a unit are numbers.
    """
    known: dict[str, Check | None] = dict(fields)

    def of(value: Any) -> None:
        if value is None:
            return
        if type(value) is not dict:
            raise _wrong(value, "an object")
        for name in needed:
            if value.get(name) is None:
                raise Damaged(f"{name} is missing")
        name = ""
        try:
            for name, own in value.items():
                # A hundred thousand records have the same names.
                check = known[name] if name in known else _learnt(known, name, rest)
                if check is not None and own is not None:
                    check(own)
        except Damaged as error:
            raise Damaged(f"{untrusted.clean(name[:60])}: {error}") from None

    return of


def _learnt(known: dict[str, Check | None], name: str, rest: Check | None) -> Check | None:
    """Return the check of a field that is not listed, and remember it."""
    check = rest or (number if name.endswith(UNITS) else None)
    if len(known) < MOST_KNOWN:
        known[name] = check
    return check


def factors(value: Any) -> None:
    """Whether these are factors with their levels."""
    for name, level in _items(value):
        label(name)  # runs that were imported before names were checked have any
        label(level) if type(level) is str else scalar(level)


def levels(value: Any) -> None:
    """Whether these are factors with lists of levels."""
    for name, own in _items(value):
        label(name)
        if own is None:
            raise _wrong(own, "a list")
        each(_level)(own)


def _level(value: Any) -> None:
    label(value) if type(value) is str else scalar(value)


def _items(value: Any) -> list[tuple[str, Any]]:
    if value is not None and type(value) is not dict:
        raise _wrong(value, "an object")
    return list((value or {}).items())


def _columns(*needed: str) -> Check:
    """Return the check of a line per rank or node, by column; `of` says how many there are."""

    def of(value: Any) -> None:
        lengths = set()
        for name, column in _items(value):
            whole(column) if name == "of" else numbers(column)
            lengths |= set() if name == "of" else {len(column or [])}
        if value and any(value.get(name) is None for name in ("of", "node", *needed)):
            raise Damaged("a column is missing")
        if len(lengths) > 1:
            raise Damaged("columns of different lengths")

    return of


_ONE_BY_ONE = part({}, rest=number)


def amounts(value: Any) -> None:
    """Whether it is an object of numbers and nothing else, which most parts of a record are."""
    if type(value) is dict and value:
        found = value.values()
        if set(map(type, found)) == {int} and min(found) >= 0 and max(found) < MOST:
            return
    _ONE_BY_ONE(value)


OPTIONS = part({}, rest=lambda value: each(scalar)(value) if type(value) is list else scalar(value))

PHASE = part(
    {
        **dict.fromkeys(("operations", "iterations", "found"), number),
        **dict.fromkeys(("contract", "time_base", "statistic", "label_conflict"), text),
        **dict.fromkeys(("arithmetic", "verified"), text),
        **dict.fromkeys(("durable", "atomic", "shifted", "past_mount"), flag),
        **dict.fromkeys(("latency", "sync_latency", "slip", "machine", "cufile"), amounts),
        **dict.fromkeys(("read", "write"), part({"latency": amounts}, rest=number)),
        **dict.fromkeys(
            ("device", "cache"), part({"name": text, "state": text, "method": text}, rest=number)
        ),
        **dict.fromkeys(("extents", "payload"), part({"method": text}, rest=number)),
        **dict.fromkeys(("notes", "invalid"), each(text)),
        "ranks": _columns("last_done_ns", "user_bytes", "operations"),
        "nodes": _columns(),
        "name": label,
        "stages": each(part({"name": label, "elapsed_ns": whole}, "name", "elapsed_ns")),
        "thread_time": amounts,
        "timeline": part({"interval_ns": whole, "bytes": numbers}),
        "workers": each(amounts),
        "process": part({}),
    },
    "name",
)
TOOL = part(
    {
        **dict.fromkeys(("name", "version"), label),
        "command": text,
        "runs": each(part({"command": each(text)}, "command")),
    },
    "name",
)
RECORD = part(
    {
        "trial": OPTIONS,
        "source": part(
            {"valid": flag, "timer_resolution_ns": number, "client_memory_bytes": number}, rest=text
        ),
        "tool": TOOL,
        "path": part({"storage": text, "direct": flag, "filesystem": text, "notes": each(text)}),
        "conditions": part(
            {
                "interposed": each(part({}, "function", "library", rest=text)),
                "traced": flag,
                "limits": amounts,
                "mount": part({}, rest=text),
                "write_cache": text,
            }
        ),
        "origin": text,
        "source_sha256": text,
        "nodes": each(label),
        "phases": each(PHASE),
    }
)
ENTRY_FIELDS: dict[str, Check] = {
    "index": whole,
    "role": label,
    "name": label,
    "label": label,
    "repeat": whole,
    "factors": factors,
}
ENTRY = part(
    {
        **ENTRY_FIELDS,
        "status": label,
        "record": RECORD,
        "error": part({}, rest=text),
    },
    *("index", "role", "name"),
)
PLANNED = part(ENTRY_FIELDS, "index", "role", "name")
STUDY = part(
    {
        **dict.fromkeys(("name", "title", "order"), text),
        **dict.fromkeys(("trial", "defaults"), OPTIONS),
        "repeats": whole,
        "factors": levels,
        "checks": part({}, rest=amounts),
        "ceilings": part({}, rest=OPTIONS),
        "parts": part({}, rest=part({"trial": OPTIONS, "factors": levels})),
        "exclude": each(OPTIONS),
        "missing": each(part({"rule": OPTIONS, "cells": whole}, "rule", rest=text)),
        "buckets": each(label),
        "expect": each(text),
        "mounts": each(part({}, rest=text)),
        "race": part({"baseline": OPTIONS, "keep": number, "finalists": whole}),
    }
)
# One setting of a race: why it was left out, or what its one short trial took.
CONTENDER = part(
    {"factors": factors, "seconds": number, "stored_share": number, "kept": flag, "why": text},
    "factors",
)
RACE = part(
    {
        "rest": part({"quiet": flag, "disturbed_by": text}),
        **dict.fromkeys(("bounded", "screened"), each(CONTENDER)),
        "finalists": each(factors),
        "cores": whole,
    }
)
ROOM = dict.fromkeys(("total_bytes", "free_bytes"), room)
HOST = part(
    {
        **dict.fromkeys(("hostname", "kernel_release", "os", "transparent_hugepages"), text),
        **dict.fromkeys(("memory", "limits", "tools"), part({}, rest=scalar)),
        "cpu": part({"model": text, "logical": number, "available": number, "cores": number}),
        "libraries": each(text),
        "target": part({"disk": part({"name": text}), **ROOM}),
    }
)
HEAD = part(
    {
        **dict.fromkeys(("run_id", "savemark_version", "started_at", "origin"), label),
        "command": each(text),
        "study": STUDY,
        "host": HOST,
        "targets": each(
            part({"label": label, "target": label, "facts": part(ROOM)}, "label", "target")
        ),
        "order_seed": whole,
        "plan": each(PLANNED),
        "sources": each(part({"bytes": number}, rest=text)),
        "skipped": each(part({}, rest=text)),
        "race": RACE,
    }
)
