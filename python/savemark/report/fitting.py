"""The main table on a terminal: the fastest settings, with as many columns as fit.

What is too wide loses columns in this order: intervals and latencies, first and diff, the share of
the limit, CPU, the stored ratio. Names of settings that are longer still go on in another line, and
where that leaves no room for them, the phases get a table each. The rates are always there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rich.console import Console
from rich.text import Text

from savemark.report.columns import LAST, PHASE, Column, Row, within
from savemark.report.document import Datum, Line, Table
from savemark.report.grid import grid, width
from savemark.report.settings import PROMISE, Settings

ROWS = 12
LATENCY_UP_TO = 2  # phases with a latency each; of more, the report has them
WIDE = 96  # below this the intervals are left out
SHORTEST = 16  # characters of a name in one line
FIRST = (
    "first: GB/s until the first worker was done; diff: how far that is from the rate until the"
    " last, trial by trial"
)


@dataclass(frozen=True, slots=True)
class Fit:
    """What a table has besides the columns that are always there."""

    room: frozenset[str]  # of wide, ends, limit, cpu, coded (see `columns.Column`)
    name: int = 0  # the longest that a name may be in one line; 0: as long as it is


def show(console: Console, found: Settings) -> bool:
    """Print the table of a target or of a part of it; return whether it has first and last."""
    if not found.rows:
        return False
    ends = _print(console, found, list(found.result.phases))
    if len(found.rows) > ROWS:
        console.print(Text(f"… all {len(found.rows)} in the report", "dim"))
    return ends


def _print(console: Console, found: Settings, phases: list[str]) -> bool:
    """Print these phases in one table, or where that is too wide, in two."""
    fit, fits = _fitting(console, found, phases)
    if not fits and len(phases) > 1:
        middle = (len(phases) + 1) // 2
        halves = [_print(console, found, half) for half in (phases[:middle], phases[middle:])]
        return any(halves)
    console.print(grid(_table(found, phases, fit), fold=fit.name or None))
    return "ends" in fit.room


def _fitting(console: Console, found: Settings, phases: list[str]) -> tuple[Fit, bool]:
    """Return what fits; if nothing does, the least there can be, and that it does not fit."""
    needed = 0
    for fit in _fits(console, found, phases):
        needed = width(console, grid(_table(found, phases, fit)))
        if needed <= console.width:
            return fit, True
    longest = max(len(_name(row, found.part)) for row in found.rows[:ROWS])
    room = longest - (needed - console.width)
    return replace(fit, name=max(room, SHORTEST // 2)), room >= SHORTEST


def _fits(console: Console, found: Settings, phases: list[str]) -> Iterator[Fit]:
    """From all columns to those that are always there."""
    plain = frozenset({"limit", "cpu", "coded"})
    ends = any(_ends(found, name) for name in phases)
    for wide in ({"wide"}, set()) if console.width >= WIDE else (set(),):
        for both in ({"ends"}, set()) if ends else (set(),):
            yield Fit(plain | wide | both)
    for room in (plain - {"limit"}, plain - {"limit", "cpu"}, frozenset[str]()):
        yield Fit(room)


def _ends(found: Settings, name: str) -> bool:
    """Whether some setting's phase says when the first of several workers was done."""
    return any(c.phases[name].first_rate for c in found.result.cells if name in c.phases)


def _table(found: Settings, phases: list[str], fit: Fit) -> Table:
    own = {name: _columns(found, name, fit) for name in phases}
    last = [c for c in within(LAST, _features(found, fit)) if c.screen is not None]
    heads = ["\nsetting"]
    for name, some in own.items():
        heads += [str(c.screen).format(**_heads(found, name, fit)) for c in some]
    heads += [str(c.screen) for c in last]
    lines = [_line(row, found, own, last) for row in found.rows[:ROWS]]
    return Table("", "", heads, lines)


def _features(found: Settings, fit: Fit, phase: str = "") -> frozenset[str]:
    """As all of a terminal's table is about one unit, what its columns need."""
    features = found.features() - {"coded"} | (fit.room - {"ends", "wide"})
    if "coded" not in found.features():
        features -= {"coded"}
    if not phase:
        return features
    if "wide" in fit.room and not (found.counted and len(found.result.phases) > LATENCY_UP_TO):
        features |= {"wide"}
    if "ends" in fit.room and not found.counted and _ends(found, phase):
        features |= {"ends"}
    return features


def _columns(found: Settings, phase: str, fit: Fit) -> list[Column]:
    features = _features(found, fit, phase)
    return [c for c in within(PHASE, features) if c.screen is not None]


def _heads(found: Settings, phase: str, fit: Fit) -> dict[str, str]:
    heads = found.heads(phase)
    kinds = heads["kinds"].replace("range, n = ", "range n=")
    if found.counted:
        speed, promise = f"{phase}\n{heads['unit']}", ""
    else:
        speed = f"{phase:>8}\nmedian" if "wide" in fit.room else f"{phase}\nGB/s"
        promise = PROMISE.get(phase, "")
    return heads | {"kinds": kinds, "speed": speed, "promise": promise}


def _line(row: Row, found: Settings, own: dict[str, list[Column]], last: list[Column]) -> Line:
    data = [Datum(_name(row, found.part))]
    for name, some in own.items():
        texts = [*_texts(row, name, some, found.counted), *[""] * len(some)]
        data += map(_datum, some, texts)
    data += [_datum(c, c.read(row)) for c in last]
    if len(found.rows) == 1:
        data[-1] = Datum(row.failed)  # the best of one is no news
    return Line(data, tone="leader" if row.place == "best" else "")


def _texts(row: Row, name: str, some: list[Column], counted: bool) -> list[str]:
    """The fields of one phase; of one that is not shown, or of another unit, the first says so."""
    phase = row.cell.phases.get(name)
    if name in row.cell.blocked:
        return [row.cell.blocked[name]]
    if phase is None:
        return ["–"]
    if phase.counted and not counted:
        return [f"{some[0].read(phase)} {phase.unit}"]
    return [c.read(phase) for c in some]


def _datum(column: Column, text: str) -> Datum:
    return Datum(text, missing=not column.left)


def _name(row: Row, part: str) -> str:
    return row.cell.setting.removeprefix(part).removeprefix(", ") or "the only setting"
