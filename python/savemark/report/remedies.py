"""Findings as messages: those with one remedy are one message of at most two sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence

from savemark.checks import Finding, Remedy, Verdict, registered
from savemark.report.analysis import Analysis
from savemark.report.document import Message

# The remedies that several checks share; a finding of another check keeps its own.
REMEDIES = {
    Remedy.IDLE: "Stop what else runs here, and run again.",
    Remedy.REPEATS: "More repeats (--repeats) would tell.",
    Remedy.LONGER: "A larger state (--size) makes the phases longer.",
}
# What an answer says itself: how many repeats there are, and which settings are as fast.
ANSWERED = ("HC-17", "HC-18")
# Of several findings each gets so many characters; the report has all of it.
LONGEST = 160


def beside(analysis: Analysis) -> list[Finding]:
    """The findings that fired, the worst first, without those that the answer itself tells."""
    told = () if analysis.parts or not analysis.results else ANSWERED
    return [finding for finding in analysis.fired if finding.id not in told]


def messages(fired: Sequence[Finding]) -> list[Message]:
    """Return findings merged by their remedy, in the order given."""
    groups: dict[str, list[Finding]] = {}
    for finding in fired:
        groups.setdefault(_remedy(finding) or finding.id, []).append(finding)
    return [_message(found) for found in groups.values()]


def _remedy(finding: Finding) -> Remedy | None:
    """The remedy that a finding shares with others; None of one that has its own."""
    remedy = registered(finding.id).remedy
    return remedy if remedy in REMEDIES and finding.verdict is not Verdict.BLOCK else None


def _message(found: Sequence[Finding]) -> Message:
    worst = min((f.verdict for f in found), key=list(Verdict).index)
    ids, shared = tuple(finding.id for finding in found), _remedy(found[0])
    if shared and len(found) > 1:
        seen = "; ".join(_short(first_sentence(f.evidence), LONGEST) for f in found)
        return Message(shared, worst, ids, f"{seen}.", REMEDIES[shared])
    (only,) = found
    cause = first_sentence(only.cause)
    seen = _short(first_sentence(only.evidence), 2 * LONGEST)
    seen = f"{seen}: {_small(cause)}." if cause else f"{seen}."
    if shared:
        return Message(shared, worst, ids, seen, REMEDIES[shared])
    check = registered(only.id)
    kind = check.blocked if only.verdict is Verdict.BLOCK else check.about
    return Message(kind, worst, ids, seen, f"{first_sentence(only.fix)}." if only.fix else "")


def first_sentence(text: str) -> str:
    """The first sentence of a text, without the period that ends it."""
    said = re.sub(r" ?\(The study sets .*?\)", "", text.strip())
    return re.split(r"(?<=[.!?])\s+(?=[A-Z“`])", said, maxsplit=1)[0].rstrip(".")


def _small(text: str) -> str:
    """A sentence behind a colon: in lower case, but for a name (`CPU`)."""
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def _short(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most - 1].rsplit(' ', 1)[0].rstrip(',;:')} …"


def caveats(found: Sequence[Message]) -> str:
    """All messages in a line: `3 caveats: longer phases (HC-13), more repeats (HC-17, HC-18)`."""
    if not found:
        return ""
    named = "; ".join(f"{each.kind} ({', '.join(each.ids)})" for each in found)
    return f"{len(found)} caveat{'s' * (len(found) > 1)}: {named}"
