"""The main table on a terminal: the fastest settings, with as many columns as fit.

What is too wide loses columns in this order: intervals and latencies, first and diff, the share of
the limit, CPU, the stored ratio. Names of settings that are longer still go on in another line, and
where that leaves no room for them, the phases get a table each. The rates are always there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rich.console import Console
from rich.table import Table
from rich.text import Text

from savemark.report.analysis import ranked
from savemark.report.settings import counted, place, range_of
from savemark.report.words import binds, counts, cpu, gbs, kinds, percent, seconds, span, two
from savemark.stats import Cell, PhaseStat, TargetResult

ROWS = 12
LATENCY_UP_TO = 2  # phases with a latency each; of more, the report has them
WIDE = 96  # below this the intervals are left out
UNLIMITED = 10_000
SHORTEST = 16  # characters of a name in one line
PROMISE = {"save": "(durable)", "restore": "(verified)"}
FIRST = (
    "first: GB/s until the first worker was done; diff: how far that is from the rate until the"
    " last, trial by trial"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """Which columns there are besides those that are always there."""

    wide: bool  # intervals, and latencies of what is counted
    ends: bool  # until the first of several workers was done
    coded: bool  # the ratio of user to stored bytes
    limit: bool = True  # the share of the limit
    cpu: bool = True  # what it costs
    name: int = 0  # the longest that a name may be in one line; 0: as long as it is


def show(console: Console, result: TargetResult, part: str, *, coded: bool) -> bool:
    """Print the table of a target or of a part of it; return whether it tells first and last."""
    cells, _ = ranked(result)
    if not cells:
        return False
    ends = _print(console, result, part, list(result.phases), coded=coded)
    if len(cells) > ROWS:
        console.print(Text(f"… all {len(cells)} in the report", "dim"))
    return ends


def _print(
    console: Console, result: TargetResult, part: str, names: list[str], *, coded: bool
) -> bool:
    """Print these phases in one table, or where that is too wide, in two."""
    shape, table, fits = _fitting(console, result, part, names, coded=coded)
    if fits or len(names) < 2:
        console.print(table)
        return shape.ends
    middle = (len(names) + 1) // 2
    halves = names[:middle], names[middle:]
    told = [_print(console, result, part, half, coded=coded) for half in halves]
    return any(told)


def _fitting(
    console: Console, result: TargetResult, part: str, names: list[str], *, coded: bool
) -> tuple[Shape, Table, bool]:
    """Return the widest table that fits; if none does, the narrowest, and that it does not."""
    endless = console.options.update(max_width=UNLIMITED)

    def width(table: Table) -> int:
        return console.measure(table, options=endless).maximum

    for shape in _shapes(console, result, names, coded):
        table = _table(result, part, names, shape)
        if width(table) <= console.width:
            return shape, table, True
    longest = max(len(_name(cell, part)) for cell in ranked(result)[0][:ROWS])
    room = longest - (width(table) - console.width)
    shape = replace(shape, name=max(room, SHORTEST // 2))
    return shape, _table(result, part, names, shape), room >= SHORTEST


def _shapes(
    console: Console, result: TargetResult, names: list[str], coded: bool
) -> Iterator[Shape]:
    """The columns, from all of them to those that are always there."""
    told = any(_ends(result, name) for name in names)
    for wide in (True, False) if console.width >= WIDE else (False,):
        for ends in (True, False) if told else (False,):
            yield Shape(wide=wide, ends=ends, coded=coded)
    plain = Shape(wide=False, ends=False, coded=coded, limit=False)
    yield from (plain, replace(plain, cpu=False), replace(plain, cpu=False, coded=False))


def _ends(result: TargetResult, name: str) -> bool:
    """Whether some setting's phase tells when the first of several workers was done."""
    return any(cell.phases[name].first_rate for cell in result.cells if name in cell.phases)


def _table(result: TargetResult, part: str, names: list[str], shape: Shape) -> Table:
    cells, found = ranked(result)
    table = _columns(result, cells, names, shape)
    for cell in cells[:ROWS]:
        mark = place(cell, found)
        words = {"best": "◀ best", "tied": "= tied"}.get(mark, "") if len(cells) > 1 else ""
        words = words or (f"{cell.failed} failed" if cell.failed else "")
        row = [_name(cell, part)]
        for phase in names:
            row += _phase(result, cell, phase, shape)
        row += _cost(cell, shape, counted(result))
        table.add_row(*(Text(word) for word in row), words, style="bold" if mark == "best" else "")
    return table


def _name(cell: Cell, part: str) -> str:
    return cell.setting.removeprefix(part).removeprefix(", ") or "the only setting"


def _columns(result: TargetResult, cells: list[Cell], names: list[str], shape: Shape) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    if shape.name:
        table.add_column("\nsetting", overflow="fold", max_width=shape.name)
    else:
        table.add_column("\nsetting", no_wrap=True)
    spreads = [p.seconds for cell in cells for p in cell.phases.values()]
    kind = kinds(spreads).replace("range, n = ", "range n=") if spreads else "range"
    if counted(result):
        return _counts(table, result, names, (kind, shape))
    for name in names:
        if shape.wide:
            table.add_column(f"{name}\nmedian", justify="right", no_wrap=True, min_width=8)
            # Text, or rich would read the brackets as markup.
            table.add_column(Text(f"{PROMISE.get(name, '')}\n[{kind}]"), no_wrap=True)
        else:
            table.add_column(f"{name}\nGB/s", justify="right", no_wrap=True)
        if shape.ends and _ends(result, name):
            table.add_column("\nfirst", justify="right", no_wrap=True)
            table.add_column("\ndiff", justify="right", no_wrap=True)
        if shape.limit:
            table.add_column("\nof limit", justify="right", no_wrap=True)
    if shape.coded:
        table.add_column("stored\nratio", justify="right", no_wrap=True)
    if shape.cpu:
        table.add_column("CPU\ns/GiB", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    return table


def _counts(table: Table, result: TargetResult, names: list[str], how: tuple[str, Shape]) -> Table:
    """The columns of what is counted: the rate of each kind of operation, and its latency."""
    several, (kind, shape) = len(result.phases) > LATENCY_UP_TO, how
    for name in names:
        unit = next(c.ran[name] for c in result.cells if name in c.ran)
        table.add_column(f"{name}\n{unit}", justify="right", no_wrap=True)
        if shape.wide and not several:
            table.add_column(Text(f"\n[{kind}]"), no_wrap=True)
            table.add_column("latency\np50", justify="right", no_wrap=True)
            table.add_column("\np99", justify="right", no_wrap=True)
            table.add_column("\np99.99", justify="right", no_wrap=True)
    if shape.cpu:
        table.add_column("CPU\nµs/op", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    return table


def _phase(result: TargetResult, cell: Cell, name: str, shape: Shape) -> list[str]:
    """The fields of one phase, as many as it has columns."""
    if counted(result):
        several = len(result.phases) > LATENCY_UP_TO
        width = 5 if shape.wide and not several else 1
    else:
        width = 1 + shape.limit + shape.wide + 2 * (shape.ends and _ends(result, name))
    phase = cell.phases.get(name)
    if name in cell.blocked:
        found = [cell.blocked[name]]
    elif phase is None:
        found = ["–"]
    elif counted(result):
        found = _count(phase)
    elif phase.counted:
        found = [f"{counts(phase.speed)} {phase.unit}"]
    else:
        found = _bytes(phase, wide=shape.wide, ends=shape.ends and _ends(result, name))
    return [*found, *[""] * width][:width]  # without a limit it is the last


def _count(phase: PhaseStat) -> list[str]:
    ns = [phase.latency_ns.get(p) for p in ("p50", "p99", "p99_99")]
    return [counts(phase.speed), range_of(phase), *("–" if n is None else span(n) for n in ns)]


def _bytes(phase: PhaseStat, *, wide: bool, ends: bool) -> list[str]:
    limit = f"{percent(phase.of_limit)} {binds(phase.limit)}".strip()
    brackets = [range_of(phase)] if wide else []
    middle = gbs(phase.user_rate) if phase.user_bytes else f"{seconds(phase.seconds.median)} s"
    first = [gbs(phase.first_rate), gbs(phase.first_apart)] if phase.first_rate else ["–", "–"]
    return [middle, *brackets, *(first if ends else []), limit]


def _cost(cell: Cell, shape: Shape, of_counts: bool) -> list[str]:
    ratio = [two(cell.ratio) if cell.sized else "–"] if shape.coded and not of_counts else []
    if not shape.cpu:
        return ratio
    if of_counts:
        return [cpu(cell.cpu_s_per_operation) if cell.whole else "–"]
    # Nothing moves bytes without a processor: a zero stands for "not recorded".
    known = cell.sized and cell.whole and cell.cpu_s_per_gib
    return [*ratio, two(cell.cpu_s_per_gib) if known else "–"]
