"""Findings as messages: those with one remedy are one message of at most two sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from savemark.advice.doubts import DOUBTS, OF_CODECS, forbidden
from savemark.checks import Finding, Verdict
from savemark.report.analysis import Analysis

# The remedies that several checks share; a finding of another check keeps its own.
IDLE, REPEATS, LONGER = "an idle machine", "more repeats", "longer phases"
KINDS = {
    "HC-15": IDLE,
    "HC-19": IDLE,
    "HC-31": IDLE,
    "HC-34": IDLE,
    "HC-37": IDLE,
    "HC-03": REPEATS,
    "HC-17": REPEATS,
    "HC-18": REPEATS,
    "HC-13": LONGER,
    "HC-14": LONGER,
}
REMEDIES = {
    IDLE: "Stop what else runs here, and run again.",
    REPEATS: "More repeats (--repeats) would tell.",
    LONGER: "A larger state (--size) makes the phases longer.",
}
# What a finding is about, in a list of caveats; those of a verdict have words of their own.
WORDS = {
    "HC-08": "a limit is set for the device",
    "HC-12": "settings promise different things",
    "HC-20": "trials failed or are missing",
    "HC-24": "the environment is not recorded",
    "HC-26": "more threads than processors",
    "HC-29": "workers did not end together",
    "HC-30": "not all processors could be used",
    "HC-35": "latencies leave out the waiting",
    "HC-36": "every operation was logged",
    "HC-39": "the cost of compression is not recorded",
}
# What an answer says itself: how many repeats there are, and which settings are as fast.
ANSWERED = ("HC-17", "HC-18")
# Of several findings each gets so many characters; the report has all of it.
LONGEST = 160


@dataclass(frozen=True, slots=True)
class Message:
    """What was seen and why, and what to do about it; of all findings with that remedy."""

    kind: str
    verdict: Verdict
    ids: tuple[str, ...]
    seen: str
    remedy: str

    @property
    def text(self) -> str:
        """Both sentences."""
        return f"{self.seen} {self.remedy}".strip()


def beside(analysis: Analysis) -> list[Finding]:
    """The findings that fired, the worst first, without those that the answer itself tells."""
    told = () if analysis.parts or not analysis.results else ANSWERED
    return [finding for finding in analysis.fired if finding.id not in told]


def messages(fired: Sequence[Finding]) -> list[Message]:
    """Return findings merged by their remedy, in the order given."""
    groups: dict[str, list[Finding]] = {}
    for finding in fired:
        kind = KINDS.get(finding.id) if finding.verdict is not Verdict.BLOCK else None
        groups.setdefault(kind or finding.id, []).append(finding)
    return [_message(kind, found) for kind, found in groups.items()]


def _message(kind: str, found: Sequence[Finding]) -> Message:
    worst = min((f.verdict for f in found), key=list(Verdict).index)
    ids = tuple(finding.id for finding in found)
    if len(found) == 1:
        (only,) = found
        cause = first_sentence(only.cause)
        seen = _short(first_sentence(only.evidence), 2 * LONGEST)
        seen = f"{seen}: {_small(cause)}." if cause else f"{seen}."
        remedy = REMEDIES.get(kind) or (f"{first_sentence(only.fix)}." if only.fix else "")
        return Message(kind if kind in REMEDIES else _words(only), worst, ids, seen, remedy)
    seen = "; ".join(_short(first_sentence(f.evidence), LONGEST) for f in found)
    return Message(kind, worst, ids, f"{seen}.", REMEDIES[kind])


def _words(finding: Finding) -> str:
    """What one finding is about, without its id."""
    if finding.verdict is Verdict.BLOCK:
        return forbidden(finding.id)
    known = (DOUBTS | OF_CODECS).get(finding.id)
    said = known.reason.removesuffix(f" ({finding.id})") if known else finding.title
    return WORDS.get(finding.id, said)


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
