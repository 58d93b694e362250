"""What was expected of a run and whether it is so: a table, sentences, data, and the exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl
from msgspec import structs

from savemark.advice.expected import Answer, Judged, Outcome, judge
from savemark.checks import Verdict
from savemark.errors import Kind
from savemark.records import Run, phases
from savemark.records.naming import setting
from savemark.report.analysis import Analysis
from savemark.report.document import Datum, Line, Table
from savemark.stats import Key, TargetResult
from savemark.study.expect import demand, levels_of, parse
from savemark.study.metrics import PHASES

MARKS = {Outcome.PASSED: "✓", Outcome.FAILED: "✕"}
CSS = {Outcome.PASSED: "passed", Outcome.FAILED: "lost"}
NOTE = (
    "A setting passes where the interval of its median lies wholly on the right side of the bound, "
    "fails where it lies wholly on the other, and shows nothing where it holds the bound. The line "
    "tells of the setting that decides: the worst, or after “any” the best."
)


def expecting(run: Run, texts: Sequence[str]) -> Run:
    """Return the run with more expectations; each has to be about something in it."""
    if not texts:
        return run
    measured = phases(run).filter(pl.col("role") == "trial")["phase"].drop_nulls().unique()
    asked = [entry for entry in run.entries if entry.role == "trial"]
    settings = [levels_of(run.study, entry.factors, entry.label) for entry in asked]
    said = []
    for text in texts:
        one = parse(text, sorted(set(measured) - {"prepare"}))
        demand(one, settings)
        said.append(one.text)
    expect = dict.fromkeys([*run.study.expect, *said])
    # The table of phases stays as it is; an analysis would know the study without them.
    kept = {name: run.memory[name] for name in ("phases", "timelines")}
    return replace(run, study=structs.replace(run.study, expect=list(expect)), memory=kept)


def answers(analysis: Analysis) -> list[Answer]:
    """Every expectation of the run's study, judged."""
    run = analysis.run
    if not run.study.expect:
        return []
    factors = {
        (entry.label, setting(entry.factors)): entry.factors
        for entry in run.entries
        if entry.role == "trial"
    }
    lines = [parse(text, [*PHASES, *analysis.phases]) for text in run.study.expect]
    return judge(run.study, factors, analysis.frame, _results(analysis), lines)


def _results(analysis: Analysis) -> list[TargetResult]:
    """The results; a finding that forbids the whole run forbids each number in it."""
    whole = next(
        (f for f in analysis.findings if f.verdict is Verdict.BLOCK and not f.blocks), None
    )
    if whole is None:
        return analysis.results
    return [
        result.block({
            Key(cell.label, cell.setting, phase): whole.id
            for cell in result.cells
            for phase in cell.ran
        })
        for result in analysis.results
    ]  # fmt: skip


def tables(analysis: Analysis) -> list[Table]:
    """The one table, first of all; nothing where nothing was expected."""
    found = answers(analysis)
    if not found:
        return []
    heads = ["", "expected", "settings", "decided by", "median", "[interval]", "n", "to do"]
    several = len(analysis.results) > 1
    lines = [_line(each, several) for each in found]
    return [Table("expected", "What was expected", heads, lines, NOTE)]


def _line(answer: Answer, several: bool) -> Line:
    one, cell, outcome = answer.expectation, answer.deciding, answer.outcome
    values = cell.values if cell else None
    name = "–" if cell is None else cell.setting + (f" on {cell.label}" if several else "")
    low_high = "–"
    if values:
        low_high = f"[{_number(answer, values.low)} {_number(answer, values.high)}] {values.kind}"
    return Line(
        [
            Datum(f"{MARKS.get(outcome, '?')} {outcome.value}", tone=CSS.get(outcome, "unshown")),
            Datum(one.text),
            Datum(f"{answer.met} of {len(answer.cells)}"),
            Datum(name),
            Datum(f"{_number(answer, values.median)} {one.unit}" if values else "–"),
            Datum(low_high, tone="quiet"),
            Datum(str(values.n) if values else "–"),
            Datum(to_do(answer)),
        ],
        tone=CSS.get(outcome, "unshown"),
    )


def _number(answer: Answer, value: float) -> str:
    return f"{value / answer.expectation.scale:.4g}"


def to_do(answer: Answer) -> str:
    """What would decide it; empty where it is decided."""
    cell, outcome = answer.deciding, answer.outcome
    if cell is None or outcome is Outcome.NOT_MEASURED:
        return "nothing that finished holds this"
    if outcome is Outcome.BLOCKED:
        return f"{cell.blocked_by} forbids the number: see the checks"
    if outcome is not Outcome.NOT_SHOWN:
        return ""
    return _more(cell)


def _more(cell: Judged) -> str:
    if cell.repeats is None:
        return "the median lies at the bound; no number of repeats would tell"
    more = cell.repeats - (cell.values.n if cell.values else 0)
    return f"about {more} more repeat{'s' * (more > 1)} would tell: --repeats {cell.repeats}"


def sentence(analysis: Analysis) -> str:
    """The table in one line; empty where nothing was expected."""
    found = answers(analysis)
    if not found:
        return ""
    counts = Counter(each.outcome for each in found)
    parts = [f"{counts[outcome]} {outcome.value}" for outcome in Outcome if counts[outcome]]
    return f"Of {len(found)} expectations {', '.join(parts)}."


def as_json(analysis: Analysis) -> list[dict[str, Any]]:
    """Return the same in base units: bytes or operations per second, seconds."""
    return [
        {
            "that": each.expectation.text,
            "outcome": each.outcome.value,
            "bound": each.expectation.bound,
            "confidence": each.expectation.confidence,
            "any": each.expectation.any,
            "to_do": to_do(each),
            "settings": [_cell(cell) for cell in each.cells],
        }
        for each in answers(analysis)
    ]


def _cell(cell: Judged) -> dict[str, Any]:
    values = cell.values
    return {
        "label": cell.label,
        "setting": cell.setting,
        "outcome": cell.outcome.value,
        "n": values.n if values else 0,
        "median": values.median if values else None,
        "low": values.low if values else None,
        "high": values.high if values else None,
        "interval": values.kind if values else None,
        "repeats_that_would_tell": cell.repeats,
        "blocked_by": cell.blocked_by or None,
    }


def failure(outcomes: Sequence[str]) -> tuple[Kind, str] | None:
    """Return the kind of error that these outcomes are, and what to say; None where all passed.

    What failed is outside tolerance; what was not shown, not measured or blocked is a run that
    did not answer.
    """
    failed = sum(each == Outcome.FAILED for each in outcomes)
    open_ = sum(each not in (Outcome.FAILED, Outcome.PASSED) for each in outcomes)
    if failed:
        return "outside", f"{failed} of {len(outcomes)} expectations failed"
    if open_:
        return "failed", f"{open_} of {len(outcomes)} expectations could not be shown"
    return None
