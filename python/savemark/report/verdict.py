"""The decision in one sentence, and at most five messages."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from savemark.checks import Finding
from savemark.checks.flush import PROMISES
from savemark.checks.repeats import leader
from savemark.checks.wording import difference
from savemark.report import expecting, io500
from savemark.report.analysis import Analysis
from savemark.report.words import both, gbs, percent, seconds, speed, where
from savemark.stats import TOTAL, Cell, Ranking, TargetResult

MESSAGES = 5
# A codec that saves less than this share of the bytes is not worth a sentence.
WORTH = 1.03
NOTHING = "This run holds no trial, so there is nothing to decide."


def decision(analysis: Analysis) -> list[str]:
    """What was expected; a sentence per target; where it can be shown, when a codec would pay."""
    met = [text] if (text := expecting.sentence(analysis)) else []
    if analysis.parts:
        return [*met, *headlines(analysis)]
    if scores := io500.sentences(analysis):
        return [*met, *scores]
    sentences = []
    several = len(analysis.results) > 1
    for result in analysis.results:
        for given, part in result.by_given().items():
            here = f"On {result.label}" if several else "Here"
            here += f", for {given}," if given else ""
            for promise, alike in by_promise(analysis, part).items():
                which = f"{here}, of what promises {promise}," if promise else here
                sentence = _decide(alike, which)
                sentences.append(" ".join(s for s in (sentence, _codecs(alike)) if s))
    return [*met, *(sentences or [NOTHING])]


def by_promise(analysis: Analysis, result: TargetResult) -> dict[str, TargetResult]:
    """The cells apart by what is durable when their clocks stop; one part, "", if all are alike.

    A setting that promises less is faster for that reason alone (HC-12).
    """
    rows = analysis.frame.filter(
        (pl.col("role") == "trial") & (pl.col("label") == result.label)
    ).drop_nulls("contract")
    told = dict(rows.select("setting", "contract").unique(maintain_order=True).rows())
    kinds = list(dict.fromkeys(told.values()))
    if len(kinds) < 2 or any(cell.setting not in told for cell in result.cells):
        return {"": result}
    return {
        PROMISES.get(kind, kind): replace(
            result, cells=tuple(cell for cell in result.cells if told[cell.setting] == kind)
        )
        for kind in kinds
    }


def messages(analysis: Analysis) -> tuple[list[Finding], int]:
    """The five worst findings, and how many more there are."""
    fired = analysis.fired
    return fired[:MESSAGES], max(0, len(fired) - MESSAGES)


def _decide(result: TargetResult, here: str) -> str:
    found = leader(result)
    if found is None:
        return f"{here} no setting can be recommended: {why_none(result)}."
    only = "" if found.measure == TOTAL else f" for {found.measure} alone (the rest is not valid)"
    return f"{here} use {_how(found.best)}{only}{_ties(found)}: {_speeds(found, result)}."


def why_none(result: TargetResult, measure: str = TOTAL) -> str:
    """Why there is no best setting: nothing finished, all is forbidden, or what was fastest is."""
    if faster := result.faster_blocked(measure):
        return f"{both(faster)} forbid{'s' * (len(faster) == 1)} the number of what was faster"
    blocked = sorted({check for cell in result.cells for check in cell.blocked.values()})
    if not blocked:
        return "no trial finished"
    return f"{both(blocked)} forbid{'s' * (len(blocked) == 1)} it"


def _how(cell: Cell) -> str:
    if cell.setting != f"{cell.codec} × {cell.streams}":
        return cell.setting
    streams = f"{cell.streams} streams" if cell.streams else "one sequential stream (streams 0)"
    return f"{cell.codec} with {streams}"


def _ties(found: Ranking) -> str:
    if found.compared == 1:
        return " (the only setting measured)"
    repeats = f"{found.best.n} repeat{'s' * (found.best.n > 1)}"
    if not found.tied:
        return f" (the fastest of {found.compared}, p < 0.05 over all pairs)"
    names = both([cell.setting for cell in found.tied])
    if len(found.tied) == found.compared - 1 > 2:
        names = f"any of the other {len(found.tied)} settings"
    leads = found.best is found.fastest
    why = "the smallest median" if leads else "the least CPU within 5 % of the fastest"
    if found.findable is None:
        return f" ({why}; {repeats} cannot tell it from {names})"
    seen = f"{difference(found.findable)} would show in 4 of 5 such runs"
    return f" ({why}; {repeats} cannot tell it from {names}, where {seen})"


def _speeds(found: Ranking, result: TargetResult) -> str:
    verbs = {"save": "saves", "restore": "restores", "write": "writes", "read": "reads"}
    verbs |= {"iterate": "computes and saves", "restart": "restarts at"}
    parts = []
    for name in result.phases:
        phase = found.best.phases.get(name)
        if phase is None or name in found.best.blocked:
            continue
        if not phase.speed:
            parts.append(f"it {verbs.get(name, name)} in {seconds(phase.seconds.median)} s")
            continue
        if phase.counted:
            parts.append(f"{name} {speed(phase)}")
            continue
        text = f"it {verbs.get(name, name)} {gbs(phase.user_rate)} GB/s"
        if phase.limit:
            text += f", {percent(phase.of_limit)} of {where(phase.limit)}"
        parts.append(text)
    return " and ".join(parts).replace(" and it ", " and ") if len(parts) < 3 else ", ".join(parts)


def headlines(analysis: Analysis) -> list[str]:
    """Of a study in parts one sentence each: the best of every target, from the records alone."""
    found: dict[str, list[str]] = {}
    several = len(analysis.results) > 1
    for result in analysis.results:
        for part, cells in analysis.apart(result).items():
            where = f"{result.label} " if several else ""
            found.setdefault(part, []).append(where + _headline(cells, part))
    order = [part for part in analysis.parts if part in found]
    return [f"{part}: {'; '.join(found[part])}." for part in order] or [NOTHING]


def _headline(result: TargetResult, part: str) -> str:
    best = leader(result)
    if best is None:
        blocked = sorted({check for cell in result.cells for check in cell.blocked.values()})
        return f"nothing to show ({both(blocked)})" if blocked else "no trial finished"
    text = ", ".join(
        f"{name} {speed(phase)}"
        for name, phase in best.best.phases.items()
        if name not in best.best.blocked
    )
    how = best.best.setting.removeprefix(part).removeprefix(", ")
    if best.compared == 1 or not how:
        return text
    tied = [cell.setting.removeprefix(part).removeprefix(", ") for cell in best.tied]
    return f"{text} with {how}" + (f" (tied with {both(tied)})" if tied else "")


def _codecs(result: TargetResult) -> str:
    """When a codec pays: a slower disk than what the fastest codec-bound save reaches by itself."""
    plain = [c for c in result.cells if c.codec == "none" and "save" in c.phases and not c.blocked]
    coded = [
        (cell.phases["save"].user_rate, cell)
        for cell in result.cells
        if cell.codec not in ("none", "tar")
        and cell.ratio > WORTH
        and "save" in cell.phases
        and not cell.blocked
    ]
    if not plain or not coded:
        return ""
    disk = max(cell.phases["save"].user_rate for cell in plain)
    rate, cell = max(coded, key=lambda pair: pair[0])
    if rate > disk:
        speeds = f"{gbs(rate)} GB/s against {gbs(disk)} without a codec"
        return f"For saving alone, {cell.setting} pays: {speeds}."
    return (
        f"For saving alone, a codec pays on this machine only where storage is slower than about "
        f"{gbs(rate)} GB/s ({cell.setting}, ratio {cell.ratio:.2f})."
    )
