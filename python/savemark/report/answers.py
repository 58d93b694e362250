"""What a run answers: a verdict for each target, what is saved, and what is promised."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import polars as pl

from savemark.advice.next_step import Judged, Step, step
from savemark.advice.threshold import Pays, Threads, codec_pays, fastest_screened
from savemark.advice.verdict import State, verdicts
from savemark.report import io500
from savemark.report.analysis import Analysis
from savemark.stats import TOTAL, TargetResult

# What is durable when the clock stops, behind "of the settings that".
PROMISES = {
    "none": "flush nothing before the clock stops",
    "unknown": "do not say what is durable",
    "each": "sync after each write",
    "end": "sync once, at the end",
    "group": "sync now and then",
    "rename": "sync and rename",
    "shared": "share a sync among threads",
    "generations": "keep two generations",
    "behind": "are durable one save later",
}
SCORE = "one run of IO500 does not tell how the next one would differ"


@dataclass(frozen=True, slots=True)
class LabelledAnswer(Judged):
    """A verdict, what it is about, and where a codec would pay."""

    about: str = ""  # target, state and promise, as far as the run has several: `scratch`
    pays: Pays | None = None


def answers(analysis: Analysis) -> list[LabelledAnswer]:
    """Every verdict of the run, in the order of its targets."""
    # The page, the terminal and the JSON all ask; numbers that are forbidden are in one of the two.
    memory, key = analysis.run.memory, ("answers", analysis.show_blocked)
    if key not in memory:
        memory[key] = list(_answers(analysis))
    found: list[LabelledAnswer] = memory[key]
    return found


def _answers(analysis: Analysis) -> Iterator[LabelledAnswer]:
    if io500.scored(analysis):
        return  # a score is no choice among settings
    cpu = analysis.run.host.cpu
    cores = cpu.available or cpu.logical
    for about, part in _parts(analysis):
        for answer in verdicts(analysis.run, part, analysis.findings):
            measure = "" if answer.measure == TOTAL else answer.measure
            threads = Threads(answer.advised.streams if answer.advised else 1, cores)
            screened = fastest_screened(analysis.run.race, part.label)
            pays = codec_pays(part, threads, screened)
            words = ", ".join(word for word in (about, measure) if word)
            yield LabelledAnswer(part, answer, words, pays)


def _parts(analysis: Analysis) -> Iterator[tuple[str, TargetResult]]:
    """The cells apart by what does not compete, each part with its name."""
    several = len(analysis.results) > 1
    for result in analysis.results:
        for given, part in analysis.apart(result).items():
            for kind, alike in by_promise(analysis, part).items():
                promise = f"settings that {PROMISES.get(kind, kind)}" if kind else ""
                words = (result.label if several else "", given, promise)
                yield ", ".join(word for word in words if word), alike


def by_promise(analysis: Analysis, result: TargetResult) -> dict[str, TargetResult]:
    """The cells apart by what is durable when their clocks stop; one part, "", if all are alike.

    A setting that promises less is faster for that reason alone (HC-12).
    """
    rows = analysis.frame.filter(
        (pl.col("role") == "trial") & (pl.col("label") == result.label)
    ).drop_nulls("contract")
    told = dict(rows.select("setting", "contract").unique(maintain_order=True).rows())
    kinds = list(dict.fromkeys(told[c.setting] for c in result.cells if c.setting in told))
    if len(kinds) < 2 or any(cell.setting not in told for cell in result.cells):
        return {"": result}
    return {
        kind: replace(
            result, cells=tuple(cell for cell in result.cells if told[cell.setting] == kind)
        )
        for kind in kinds
    }


def state(analysis: Analysis) -> tuple[State, str]:
    """The word for the whole run, that of its worst answer, and the one reason for it."""
    found = answers(analysis)
    if io500.scored(analysis):
        valid, words = analysis.badge
        broken = valid == "invalid"
        return (State.NO_ANSWER, words) if broken else (State.PROVISIONAL, SCORE)
    if not found:
        return State.NO_ANSWER, "no trial finished"
    order = list(State)
    worst = max(found, key=lambda each: order.index(each.answer.state))
    about = f"{worst.about}: " if worst.about and worst.answer.reason else ""
    return worst.answer.state, about + worst.answer.reason


def next_step(analysis: Analysis) -> Step | None:
    """The one next command of the run."""
    return step(analysis.run, answers(analysis))
