"""Which findings of the checks make an answer doubtful, and what would clear the doubt.

A check that blocks takes the number away. One that flags may concern the number that is advised,
or only what stands beside it: the table says which, and why.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from savemark.records.naming import PLAIN


class Remedy(StrEnum):
    """What is still open calls for."""

    NOTHING = "nothing"
    IDLE = "an idle machine"
    REPEATS = "more repeats"
    LONGER = "longer phases"
    FINISH = "finish the run"
    CHECK = "see the checks"


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
    def blocks(self) -> tuple[tuple[str, str, str], ...]:
        """The (label, setting, phase) whose numbers it forbids; of a BLOCK without any: all."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why an answer is provisional, in words for a reader, and what would clear it."""

    reason: str
    remedy: Remedy


# FLAGs that concern the number itself, the most telling first.
DOUBTS = {
    # What else happened to the machine is part of the time.
    "HC-31": Doubt("others used the disk or the processors (HC-31)", Remedy.IDLE),
    "HC-37": Doubt("the device moved other bytes, too (HC-37)", Remedy.IDLE),
    "HC-15": Doubt("the speed changed during the run (HC-15)", Remedy.IDLE),
    "HC-34": Doubt("the speed fell like that of a burst (HC-34)", Remedy.IDLE),
    "HC-19": Doubt("sessions differ more than repeats (HC-19)", Remedy.IDLE),
    "HC-27": Doubt("settings ran one after the other, not in turns (HC-27)", Remedy.CHECK),
    # The number is of something else than the storage.
    "HC-01": Doubt("the flush is not inside the time (HC-01)", Remedy.CHECK),
    "HC-10": Doubt("fsync may do nothing here (HC-10)", Remedy.CHECK),
    "HC-04": Doubt("reads may have come from memory (HC-04)", Remedy.CHECK),
    "HC-06": Doubt("reads may have come from the server's cache (HC-06)", Remedy.CHECK),
    "HC-38": Doubt("names may have come from memory (HC-38)", Remedy.CHECK),
    "HC-07": Doubt("another program stood between savemark and the kernel (HC-07)", Remedy.CHECK),
    "HC-11": Doubt("what was restored was not verified (HC-11)", Remedy.CHECK),
    "HC-14": Doubt("the clock is too coarse for these times (HC-14)", Remedy.LONGER),
    "HC-28": Doubt("ranks did not start together (HC-28)", Remedy.CHECK),
    "HC-25": Doubt("the tool does not stand by its result (HC-25)", Remedy.CHECK),
    "HC-40": Doubt("the numbers are the best of several runs (HC-40)", Remedy.CHECK),
    "HC-41": Doubt("what is compared had memory of two kinds (HC-41)", Remedy.CHECK),
    # The share of the limit is wrong, and with it how much there is left to gain.
    "HC-03": Doubt("what bounds it was measured too low (HC-03)", Remedy.REPEATS),
}
# A FLAG about the data concerns a setting that compresses it.
OF_CODECS = {"HC-09": Doubt("the data is easier to compress than real data (HC-09)", Remedy.CHECK)}
# FLAGs that are notes here: HC-12 (settings that promise different things are told apart before
# they are compared), HC-13 (the verdict has a limit of its own), HC-20 (the verdict counts the
# repeats that are there), HC-24 (what is not recorded changes no number), HC-26 (many threads are
# part of the setting), HC-35 (latencies, not rates).

# Why a number is blocked, in a few words.
FORBIDDEN = {
    "HC-02": "the device did not receive the bytes",
    "HC-03": "faster than the measured ceiling",
    "HC-04": "reads may have come from memory",
    "HC-05": "restores were not cold",
    "HC-07": "another library answered the calls",
    "HC-13": "phases are too short to be a measurement",
    "HC-16": "times of two kinds are mixed",
    "HC-21": "the arithmetic does not hold",
    "HC-22": "the label is not what ran",
    "HC-23": "runs share a place",
    "HC-25": "the tool called it invalid",
    "HC-26": "there was nothing to do",
    "HC-32": "GPUDirect Storage was not on the path",
    "HC-33": "what was read had never been written",
}


def forbidden(identifier: str) -> str:
    """Why a run or a number with this BLOCK is invalid."""
    return FORBIDDEN.get(identifier, "see the checks")


def doubt(found: Sequence[Fired], advised: str, others: Sequence[str], codec: str) -> Doubt | None:
    """Return the first FLAG that concerns the number of the advised setting; None where none does.

    `others` are the names of the target's other settings, `codec` is the advised one's.
    """
    table = DOUBTS if codec in PLAIN else DOUBTS | OF_CODECS
    flags = {each.id: each.evidence for each in found if each.verdict == "FLAG"}
    return next(
        (
            why
            for identifier, why in table.items()
            if identifier in flags and _about(flags[identifier], advised, others)
        ),
        None,
    )


def _about(evidence: str, advised: str, others: Sequence[str]) -> bool:
    """Whether evidence names the setting, or no setting at all, or more than it lists."""
    if _names(evidence, advised) or re.search(r"\b\d+ more\b", evidence):
        return True
    return not any(_names(evidence, name) for name in others)


def _names(text: str, setting: str) -> bool:
    """Whether a text names a setting: `none × 4`, but not as the start of `none × 48`."""
    return re.search(rf"(?<!\w){re.escape(setting)}(?!\w)", text) is not None
