"""Which findings of the checks make an answer doubtful, and what would clear the doubt.

A check that blocks takes the number away. One that flags may concern the number that is advised,
or only what stands beside it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from savemark.checks import Remedy, registered
from savemark.records.naming import PLAIN
from savemark.stats import Key


class Fired(Protocol):
    """A finding of a check, as far as a verdict looks at it."""

    @property
    def id(self) -> str:
        """The name of the check: `HC-15`."""

    @property
    def verdict(self) -> str:
        """`BLOCK`, `FLAG`, `NOTE`, or another word for nothing found."""

    @property
    def evidence(self) -> str:
        """What was seen, with the settings that it was seen of."""

    @property
    def blocks(self) -> tuple[Key, ...]:
        """The phases of settings whose numbers it forbids; of a BLOCK without any: all."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why an answer is provisional, in words for a reader, and what would clear it."""

    reason: str
    remedy: Remedy


# Of several FLAGs that concern the number itself, the most telling comes first.
FIRST = (
    # What else happened to the machine is part of the time.
    *("HC-31", "HC-37", "HC-15", "HC-34", "HC-19", "HC-27"),
    # The number is of something else than the storage.
    *("HC-01", "HC-10", "HC-04", "HC-06", "HC-38", "HC-07", "HC-11", "HC-14", "HC-28", "HC-25"),
    *("HC-40", "HC-41"),
    # The share of the limit is wrong, and with it how much there is left to gain.
    "HC-03",
)
# A FLAG about the data concerns a setting that compresses it.
OF_CODECS = "HC-09"
# FLAGs that are notes here: HC-12 (settings that promise different things are told apart before
# they are compared), HC-13 (the verdict has a limit of its own), HC-20 (the verdict counts the
# repeats that are there), HC-24 (what is not recorded changes no number), HC-26 (many threads are
# part of the setting), HC-35 (latencies, not rates).


def doubt(fired: Sequence[Fired], advised: str, others: Sequence[str], codec: str) -> Doubt | None:
    """Return the first FLAG that concerns the number of the advised setting; None where none does.

    `others` are the names of the target's other settings, `codec` is the advised one's.
    """
    flags = {finding.id: finding.evidence for finding in fired if finding.verdict == "FLAG"}
    for identifier in FIRST if codec in PLAIN else (*FIRST, OF_CODECS):
        if identifier in flags and _about(flags[identifier], advised, others):
            check = registered(identifier)
            return Doubt(f"{check.doubt} ({identifier})", check.remedy)
    return None


def _about(evidence: str, advised: str, others: Sequence[str]) -> bool:
    """Whether evidence names the setting, or no setting at all, or more than it lists."""
    if _names(evidence, advised) or re.search(r"\b\d+ more\b", evidence):
        return True
    return not any(_names(evidence, name) for name in others)


def _names(text: str, setting: str) -> bool:
    """Whether a text names a setting: `none × 4`, but not as the start of `none × 48`."""
    return re.search(rf"(?<!\w){re.escape(setting)}(?!\w)", text) is not None
