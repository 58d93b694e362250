"""The decision in sentences: what to use on each target, and how fast that is."""

from __future__ import annotations

from savemark.advice.verdict import State
from savemark.checks.repeats import leader
from savemark.report import expecting, io500
from savemark.report.analysis import Analysis
from savemark.report.document import Message
from savemark.report.remedies import beside, messages
from savemark.report.speech import spoken
from savemark.report.text import both, speed
from savemark.stats import TOTAL, TargetResult

MESSAGES = 5
NOTHING = "This run holds no trial, so there is nothing to decide."


def decision(analysis: Analysis) -> list[str]:
    """What was expected; a sentence per answer; where it can be shown, when a codec would pay."""
    met = [text] if (text := expecting.sentence(analysis)) else []
    if analysis.parts:
        return [*met, *headlines(analysis)]
    if scores := io500.sentences(analysis):
        return [*met, *scores]
    sentences = []
    for each in spoken(analysis):
        about = f"{each.about}: " if each.about else ""
        said = [text for label, text in each.lines if label == "codec"]
        why = f"Provisional: {dict(each.lines)['why']}" if each.state is State.PROVISIONAL else ""
        sentences.append(" ".join(text for text in (about + each.sentence, *said, why) if text))
    return [*met, *(sentences or [NOTHING])]


def shown(analysis: Analysis) -> tuple[list[Message], int]:
    """The five worst messages, and how many more there are."""
    found = messages(beside(analysis))
    return found[:MESSAGES], max(0, len(found) - MESSAGES)


def why_none(result: TargetResult, measure: str = TOTAL) -> str:
    """Why there is no best setting: nothing finished, all is forbidden, or what was fastest is."""
    if faster := result.faster_blocked(measure):
        return f"{both(faster)} forbid{'s' * (len(faster) == 1)} the number of what was faster"
    blocked = sorted({check for cell in result.cells for check in cell.blocked.values()})
    if not blocked:
        return "no trial finished"
    return f"{both(blocked)} forbid{'s' * (len(blocked) == 1)} it"


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
