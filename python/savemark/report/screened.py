"""What a race tried once, or did not run at all: one table, apart from all that is compared."""

from __future__ import annotations

from typing import Any

from savemark.records import Run
from savemark.records.naming import setting
from savemark.report.analysis import Analysis
from savemark.report.document import MISSING, Datum, Line, Table, quantity
from savemark.report.words import percent, seconds

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
    race = run.race or {}
    tried = [each for each in race.get("screened") or [] if isinstance(each, dict)]
    tried = sorted(tried, key=lambda each: _number(each, "seconds") or float("inf"))
    known = [s for each in tried if (s := _number(each, "seconds"))]
    leader = min(known, default=None)
    lines = [_tried(each, leader) for each in tried]
    return lines + [_bounded(each) for each in race.get("bounded") or [] if isinstance(each, dict)]


def _tried(each: dict[str, Any], leader: float | None) -> Line:
    time, stored = _number(each, "seconds"), _number(each, "stored_share")
    share = leader / time if leader and time else None
    kept = bool(each.get("kept"))
    return Line(
        [
            Datum(_name(each), tone="name"),
            quantity(time, seconds),
            quantity(share, percent),
            quantity(stored, percent),
            Datum("yes" if kept else "no"),
            Datum(str(each.get("why") or "")),
        ],
        tone="best" if kept else "",
    )


def _bounded(each: dict[str, Any]) -> Line:
    why = str(each.get("why") or "")
    return Line([Datum(_name(each), tone="name"), *[MISSING] * 3, Datum("not run"), Datum(why)])


def _name(each: dict[str, Any]) -> str:
    factors = each.get("factors") or {}
    where = f" on {factors['target']}" if "target" in factors else ""
    return setting(factors) + where


def _number(each: dict[str, Any], name: str) -> float | None:
    """A number above zero; None for anything else."""
    value = each.get(name)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return float(value) if usable and value is not None else None
