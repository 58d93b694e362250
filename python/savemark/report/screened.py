"""What a race tried once, or did not run at all: one table, apart from all that is compared."""

from __future__ import annotations

from savemark.records import Run
from savemark.records.head import Contender, Race
from savemark.records.naming import setting
from savemark.report.analysis import Analysis
from savemark.report.document import MISSING, Datum, Line, Table, quantity
from savemark.report.text import percent, seconds

NOTE = (
    "Seconds are of a save and a restore, of the faster of two trials. That says too little to "
    "compare by: these are in no statistic, and decide only what is measured again. “Not run”: "
    "what a codec did on one core bounds how fast the setting could have been."
)


def tables(analysis: Analysis) -> list[Table]:
    """Return the table of a race; nothing for another run."""
    lines = _lines(analysis.run)
    heads = ["setting", "seconds", "share of the leader", "stored share", "kept", "why"]
    title = "Screened: one or two short trials each, not compared"
    return [Table("screened", title, heads, lines, NOTE)] if lines else []


def _lines(run: Run) -> list[Line]:
    race = run.race or Race()
    tried = sorted(race.screened, key=lambda each: each.seconds or float("inf"))
    leader = min((each.seconds for each in tried if each.seconds), default=None)
    lines = [_tried(each, leader) for each in tried]
    return lines + [_bounded(each) for each in race.bounded]


def _tried(each: Contender, leader: float | None) -> Line:
    time, stored = each.seconds or None, each.stored_share or None
    share = leader / time if leader and time else None
    return Line(
        [
            Datum(_name(each), tone="name"),
            quantity(time, seconds),
            quantity(share, percent),
            quantity(stored, percent),
            Datum("yes" if each.kept else "no"),
            Datum(each.why or ""),
        ],
        tone="best" if each.kept else "",
    )


def _bounded(each: Contender) -> Line:
    name, why = Datum(_name(each), tone="name"), Datum(each.why or "")
    return Line([name, *[MISSING] * 3, Datum("not run"), why])


def _name(each: Contender) -> str:
    factors = each.factors
    where = f" on {factors['target']}" if "target" in factors else ""
    return setting(factors) + where
