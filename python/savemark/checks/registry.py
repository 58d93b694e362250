"""What a check is given, what it answers, and the list of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

import polars as pl

from savemark.records import Run
from savemark.stats import TargetResult


class Verdict(StrEnum):
    """From worst to best; `unverified` is never read as `ok`."""

    BLOCK = "BLOCK"
    FLAG = "FLAG"
    NOTE = "NOTE"
    UNVERIFIED = "unverified"
    OK = "ok"

    @property
    def fired(self) -> bool:
        """Whether a reader has to be told."""
        return self in (Verdict.BLOCK, Verdict.FLAG, Verdict.NOTE)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the checks look at: records and what was computed from them, nothing else."""

    run: Run
    frame: pl.DataFrame
    results: list[TargetResult]

    @property
    def trials(self) -> pl.DataFrame:
        """The rows of finished phases of trials; ceilings and failed trials are not in it."""
        finished = (pl.col("role") == "trial") & pl.col("phase").is_not_null()
        return self.frame.filter(finished & (pl.col("phase") != "prepare"))


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict with what was seen, why it probably is so, and exactly what to do about it."""

    verdict: Verdict
    evidence: str
    cause: str = ""
    fix: str = ""
    # (target label, setting, phase) that must not be shown without an override.
    blocks: tuple[tuple[str, str, str], ...] = ()
    id: str = field(default="", kw_only=True)
    title: str = field(default="", kw_only=True)

    @property
    def message(self) -> str:
        """Observation + cause + fix as one paragraph."""
        return " ".join(part for part in (self.evidence, self.cause, self.fix) if part)


Check = Callable[[Evidence], Finding]


@dataclass(frozen=True, slots=True)
class Entry:
    """A registered check."""

    id: str
    title: str
    after_ranking: bool
    function: Check


_CHECKS: dict[str, Entry] = {}


def check(identifier: str, title: str, *, after_ranking: bool = False) -> Callable[[Check], Check]:
    """Register a check; one that judges a claim runs after the blocks of the others are known."""

    def register(function: Check) -> Check:
        if identifier in _CHECKS:
            raise ValueError(f"{identifier} is registered twice")
        _CHECKS[identifier] = Entry(identifier, title, after_ranking, function)
        return function

    return register


def catalogue() -> list[Entry]:
    """Return every check, by id."""
    return sorted(_CHECKS.values(), key=lambda entry: entry.id)


def run_checks(evidence: Evidence) -> tuple[list[Finding], list[TargetResult]]:
    """Run all checks; return their findings by id, and the results with blocked phases marked."""
    early = [_run(entry, evidence) for entry in catalogue() if not entry.after_ranking]
    blocked = {key: finding.id for finding in early for key in finding.blocks}
    results = [result.block(blocked) for result in evidence.results]
    judged = replace(evidence, results=results)
    late = [_run(entry, judged) for entry in catalogue() if entry.after_ranking]
    return sorted([*early, *late], key=lambda finding: finding.id), results


def _run(entry: Entry, evidence: Evidence) -> Finding:
    return replace(entry.function(evidence), id=entry.id, title=entry.title)
