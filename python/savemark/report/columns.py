"""The columns of the main table, once for the page, Markdown, the terminal, CSV and JSON.

A new one is an entry here. Tables of other things are made of columns, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from savemark.report.document import Datum, Line, Table
from savemark.report.text import (
    binds,
    counts,
    cpu,
    gbs,
    number,
    percent,
    seconds,
    span,
    two,
)
from savemark.stats import Cell, PhaseStat, Ranking
from savemark.stats.cells import LATENCIES

NONE: frozenset[str] = frozenset()
BYTES, OPERATIONS = frozenset({"bytes"}), frozenset({"operations"})


@dataclass(frozen=True, slots=True)
class Column:
    """One quantity of a row, in every format that has it.

    A head may name what its table fills in: `{phase}`, `{unit}`, `{kind}`. `needs` are features
    that a table must have: of its numbers (`bytes`, `operations`, `coded`), on a terminal also of
    its width.
    """

    key: str  # in CSV and JSON; "" is not there
    value: Callable[[Any], Any]  # of the row, in base units; None where it is not known
    words: Callable[[Any], str] = str  # of a value that is known
    head: str | None = None  # on the page and in Markdown; None is not there
    screen: str | None = None  # both lines of it on a terminal; None is not there
    needs: frozenset[str] = NONE
    text: Callable[[Any], str] | None = None  # of the row, where the value alone is not enough
    tip: Callable[[Any], str] = lambda _: ""
    bar: Callable[[Any], float | None] = lambda _: None
    tone: str = ""
    left: bool = False  # on a terminal
    unknown: str = "–"  # what stands for a value that is not known

    def read(self, row: Any) -> str:
        """What a reader sees."""
        if self.text is not None:
            return self.text(row)
        value = self.value(row)
        return self.unknown if value is None else self.words(value)

    def datum(self, row: Any) -> Datum:
        """The field of the page and of Markdown."""
        value = self.value(row)
        sort = value if isinstance(value, int | float) and not isinstance(value, bool) else None
        missing = value is None
        return Datum(self.read(row), sort, self.tip(row), self.tone, self.bar(row), missing)


def fields(columns: Iterable[Column], row: Any) -> dict[str, Any]:
    """One row in base units, for CSV and JSON; without a row all is unknown."""
    return {c.key: None if row is None else c.value(row) for c in columns if c.key}


def line(columns: Iterable[Column], row: Any, tone: str = "") -> Line:
    """One row for a reader."""
    return Line([c.datum(row) for c in columns if c.head is not None], tone=tone)


def table(
    name: str, title: str, columns: Sequence[Column], rows: Iterable[Any], note: str = ""
) -> Table:
    """A table of alike rows for a reader."""
    heads = [c.head for c in columns if c.head is not None]
    return Table(name, title, heads, [line(columns, row) for row in rows], note)


def within(columns: Iterable[Column], features: frozenset[str]) -> list[Column]:
    """The columns that a table with these features has."""
    return [c for c in columns if c.needs <= features]


@dataclass(frozen=True, slots=True)
class Row:
    """One setting on one target, and its place among the others: best, tied or none."""

    cell: Cell
    place: str

    @property
    def total(self) -> float | None:
        """Seconds of all phases: the median."""
        return self.cell.total.median if self.cell.total else None

    @property
    def failed(self) -> str:
        """How many repeats failed, in words."""
        return f"{self.cell.failed} failed" if self.cell.failed else ""


def place(cell: Cell, ranking: Ranking | None) -> str:
    """`best`, `tied`, or nothing."""
    if ranking is None or cell.setting not in ranking.settings:
        return ""
    return "best" if cell.setting == ranking.best.setting else "tied"


def range_of(phase: PhaseStat) -> str:
    """Its interval (or range) in its unit; in seconds where neither bytes nor a count is known."""
    if phase.speeds:
        return f"[{number(phase, phase.slowest)} {number(phase, phase.fastest)}]"
    return f"[{seconds(phase.seconds.low)} {seconds(phase.seconds.high)}] s"


def trials(phase: PhaseStat) -> str:
    """Each of its repeats in a line."""
    work = phase.operations if phase.counted else phase.user_bytes
    return "\n".join(
        f"repeat {repeat + 1}: {seconds(s)} s"
        + (f", {number(phase, work / s)} {phase.unit}" if work else "")
        for repeat, s in phase.trials
    )


def _speed(phase: PhaseStat) -> str:
    """Its speed, or its time where nothing is known to have been moved or counted."""
    if phase.counted or phase.user_bytes:
        return number(phase, phase.speed)
    return f"{seconds(phase.seconds.median)} s"


def _bound(phase: PhaseStat) -> str:
    if phase.limit is None:
        return "no ceiling was measured"
    return f"bound by {phase.limit.name}: {gbs(phase.limit.rate)} GB/s of user bytes"


def _latency(name: str) -> Column:
    """One percentile; the page and a wide terminal have three of them."""
    short = {"p50": "p50", "p99": "p99", "p99_99": "p99.99"}.get(name)
    screen = f"{'latency' if name == 'p50' else ''}\n{short}" if short else None
    needs = OPERATIONS | {"wide"} if short else NONE
    return Column(
        f"latency_ns_{name}", lambda p: p.latency_ns.get(name), span, short, screen, needs
    )


# Of a setting: before its phases, and behind them; in CSV and JSON both are before the phases.
FIRST = (
    Column(
        "",
        lambda row: " ".join(
            filter(None, ({"best": "◀ best", "tied": "tied"}.get(row.place), row.failed))
        ),
        head="",
        tone="mark",
    ),
    Column("n", lambda row: row.cell.n, head="n"),
    Column("failed", lambda row: row.cell.failed),
    Column("place", lambda row: row.place),
    # Its time holds those of forbidden phases: shown where they are shown as such, phase by phase.
    Column("total_s_median", lambda row: row.total),
    Column("", lambda row: None if row.cell.blocked else row.total, seconds, head="total s"),
)
LAST = (
    Column(
        "ratio",
        lambda row: row.cell.ratio if row.cell.sized else None,
        two,
        "ratio",
        "stored\nratio",
        BYTES | {"coded"},
    ),
    # Nothing moves bytes without a processor: a zero stands for "not recorded".
    Column(
        "cpu_s_per_gib",
        lambda row: row.cell.cpu_s_per_gib or None if row.cell.sized and row.cell.whole else None,
        two,
        "CPU s/GiB",
        "CPU\ns/GiB",
        BYTES | {"cpu"},
    ),
    Column(
        "",
        lambda row: row.cell.cpu_s_per_operation or None if row.cell.whole else None,
        cpu,
        "CPU µs/op",
        "CPU\nµs/op",
        OPERATIONS | {"cpu"},
    ),
    Column(
        "",
        lambda row: {"best": "◀ best", "tied": "= tied"}.get(row.place) or row.failed,
        screen="",
        left=True,
    ),
)
# Of each phase of a setting. Nothing moves no bytes: a zero stands for "not recorded".
PHASE = (
    Column("s_median", lambda p: p.seconds.median, seconds, "seconds", needs=BYTES, tip=trials),
    Column("s_low", lambda p: p.seconds.low),
    Column("s_high", lambda p: p.seconds.high),
    Column("interval", lambda p: p.seconds.kind),
    Column("user_bytes", lambda p: p.user_bytes or None),
    Column("stored_bytes", lambda p: p.stored_bytes or None),
    Column("user_bytes_per_s", lambda p: p.user_rate or None),
    # The seconds beside it have the same trials, and one tip is enough.
    Column("", lambda p: p.speed or None, gbs, "GB/s", needs=BYTES),
    Column("", lambda p: p.speed or None, counts, "{unit}", needs=OPERATIONS, tip=trials),
    Column("", lambda p: p.speed or None, screen="{speed}", text=_speed),
    Column(
        "",
        lambda p: p.slowest or None,
        head="[{kind}]",
        screen="{promise}\n[{kinds}]",
        needs=frozenset({"wide"}),
        text=range_of,
        tip=lambda p: p.seconds.kind,
        tone="quiet",
        left=True,
    ),
    Column("", lambda p: p.first_rate or None, gbs, screen="\nfirst", needs=frozenset({"ends"})),
    Column(
        "",
        lambda p: p.first_apart if p.first_rate else None,
        gbs,
        screen="\ndiff",
        needs=frozenset({"ends"}),
    ),
    Column(
        "stored_bytes_per_s",
        lambda p: p.stored_rate or None,
        gbs,
        "stored GB/s",
        needs=BYTES | {"coded"},
    ),
    Column("cpu_s_per_gib", lambda p: p.cpu_s_per_gib or None),
    Column("operations", lambda p: p.operations or None),
    Column("operations_per_s", lambda p: p.operation_rate or None),
    Column("cpu_s_per_operation", lambda p: p.cpu_s_per_operation or None),
    *(_latency(name) for name in LATENCIES),
    Column("", lambda p: p.cpu_s_per_operation or None, cpu, "CPU µs", needs=OPERATIONS),
    Column("limit_bytes_per_s", lambda p: p.limit and p.limit.rate),
    Column("limit", lambda p: p.limit and p.limit.name),
    Column(
        "of_limit",
        lambda p: p.of_limit,
        head="of limit",
        screen="\nof limit",
        needs=BYTES | {"limit"},
        text=lambda p: f"{percent(p.of_limit)} {binds(p.limit)}".strip(),
        tip=_bound,
        bar=lambda p: min(p.of_limit, 1.0) if p.of_limit else None,
    ),
)
