"""The CSV of mdtest's ranks: one repeat as mdtest counts it, and when each rank of each had ended.

The row `all` is the first repeat, until all ranks had met again. The ranks' own rows leave that
meeting out, and there is no row `all` of the other repeats.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from savemark import limits
from savemark.errors import usage
from savemark.tools._numbers import NS_PER_S, number, whole
from savemark.tools.source import Source

KINDS = ("Directory", "File", "Tree")
NEVER_RUN = ("rate-Directory read",)  # it has a column, and mdtest no such operation
# A meeting that took less of the first repeat is left out of the others, too; HC-21's limit.
MEETING = 0.02

Operation = tuple[str, str]  # ("File", "creation")


@dataclass(frozen=True, slots=True)
class Timed:
    """One operation of one repeat. Nobody says of how many items the tree's were."""

    items: int | None
    elapsed_ns: int
    rate: float | None = None  # as printed
    ends: tuple[int, int] | None = None  # of the first and of the last rank, in ns


@dataclass(frozen=True, slots=True)
class Ranks:
    """What the CSV says."""

    count: int
    items: int  # of each rank
    repeats: list[dict[Operation, Timed]]
    notes: list[str]


def read(source: Source) -> Ranks:
    """Read the CSV; a usage error without its row `all`, or where that says nothing."""
    source.limit(source.text.count(","), limits.MOST_FIELDS, "fields")
    lines = [line.split(",") for line in source.lines if line.strip()]
    columns, rows = lines[0], lines[1:]
    all_ = next((row for row in rows if row[0] == "all"), None)
    if all_ is None or len(all_) != len(columns):
        raise usage(f"{source.path}: mdtest's CSV has no row `all`", "was mdtest stopped?")
    ranks = [row for row in rows if row[0] != "all"]
    count = len({row[0] for row in ranks})
    values = dict(zip(columns, all_, strict=True))
    each = whole(values.get("items"))
    if each is None or each < 0 or not count:
        raise usage(f"{source.path}: it does not say what each of its {count} ranks did")
    first = dict(_of_all(values, each * count))
    if not first and each:
        raise usage(f"{source.path}: no rate in its row `all`", "was mdtest stopped?")
    if not each:
        nothing = ((("File", name), Timed(0, 0, 0.0)) for name in ("creation", "stat", "removal"))
        return Ranks(count, each, [first | dict(nothing)], [])
    repeats, notes = _repeats(first, list(_parts(columns, ranks, count)))
    return Ranks(count, each, repeats, notes)


def _of_all(values: dict[str, str], items: int) -> Iterator[tuple[Operation, Timed]]:
    for column, value in values.items():
        kind, _, operation = column.removeprefix("rate-").partition(" ")
        if not column.startswith("rate-") or kind not in KINDS or column in NEVER_RUN:
            continue
        rate, seconds = number(value), number(values.get(f"time-{kind} {operation}"))
        if rate and seconds and rate > 0 and seconds > 0:
            done = None if kind == "Tree" else items
            yield (kind, operation), Timed(done, round(seconds * NS_PER_S), rate)


def _parts(
    columns: list[str], ranks: list[list[str]], count: int
) -> Iterator[dict[Operation, tuple[int, int]]]:
    """Yield, by repeat, when the first and the last rank had ended each operation."""
    for start in range(0, len(ranks) - count + 1, count):
        # Their rows end before the columns of the tree, which is the first rank's alone.
        rows = [dict(zip(columns, row, strict=False)) for row in ranks[start : start + count]]
        ends: dict[Operation, tuple[int, int]] = {}
        for column in columns:
            kind, _, operation = column.removeprefix("time-").partition(" ")
            seconds = [number(row.get(column)) for row in rows]
            known = [each for each in seconds if each and each > 0]
            if column.startswith("time-") and len(known) == count:
                ends[kind, operation] = (
                    round(min(known) * NS_PER_S),
                    round(max(known) * NS_PER_S),
                )
        yield ends


def _repeats(
    first: dict[Operation, Timed], parts: list[dict[Operation, tuple[int, int]]]
) -> tuple[list[dict[Operation, Timed]], list[str]]:
    """Return the repeats: those after the first where the meeting of the ranks was short."""
    ends = parts[0] if parts else {}
    alone = {
        key: Timed(each.items, each.elapsed_ns, each.rate, ends.get(key))
        for key, each in first.items()
    }
    if len(parts) < 2:
        return [alone], []
    near = [
        key for key, each in alone.items()
        if each.ends and each.ends[1] <= each.elapsed_ns <= each.ends[1] * (1 + MEETING)
    ]  # fmt: skip
    # All repeats by the same clock: until the last rank had ended.
    by_ranks = {
        key: Timed(alone[key].items, pair[1], alone[key].rate, pair)
        for key, pair in ends.items()
        if key in near
    }
    others = [
        {key: Timed(alone[key].items, part[key][1], None, part[key]) for key in near if key in part}
        for part in parts[1:]
    ]
    return [alone | by_ranks, *(part for part in others if part)], _notes(alone, near, len(parts))


def _notes(first: dict[Operation, Timed], near: list[Operation], count: int) -> list[str]:
    far = [f"{kind} {name}" for (kind, name) in first if (kind, name) not in near]
    if not far:
        return []
    return [
        f"read 1 of {count} repeats of {', '.join(far)}: of the others only the ranks' own times "
        "are there, which leave out the waiting for each other, and here that is more than 2 %"
    ]
