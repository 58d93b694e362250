"""What a check is given, what it answers, and the list of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

import polars as pl

from savemark.records import Run
from savemark.stats import Key, TargetResult

# The origin of rows that were read from another program's files.
IMPORTED = "imported"


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


class Remedy(StrEnum):
    """What is still open calls for."""

    NOTHING = "nothing"
    IDLE = "an idle machine"
    REPEATS = "more repeats"
    LONGER = "longer phases"
    FINISH = "finish the run"
    CHECK = "see the checks"


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

    @property
    def live(self) -> pl.DataFrame:
        """The trials that this program measured itself."""
        return self.trials.filter(pl.col("origin") != IMPORTED)

    @property
    def imported(self) -> pl.DataFrame:
        """The trials that were read from another program's files."""
        return self.trials.filter(pl.col("origin") == IMPORTED)

    def limit(self, identifier: str, name: str) -> float | None:
        """A limit of a check: as the study sets it under `checks`, else the check's own."""
        own = _CHECKS[identifier].limits[name]
        return self.run.study.checks.get(identifier, {}).get(name, own)

    def needed(self, identifier: str, name: str) -> float:
        """As `limit`, of one that always has a value."""
        value = self.limit(identifier, name)
        assert value is not None
        return value


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict with what was seen, why it probably is so, and exactly what to do about it."""

    verdict: Verdict
    evidence: str
    cause: str = ""
    fix: str = ""
    # What must not be shown without an override.
    blocks: tuple[Key, ...] = ()
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
    rule: str  # evidence → rule, for the catalogue
    verdict: str  # what it can say, in words
    applies: str  # L = live trials, I = imported ones
    limits: dict[str, float | None]  # what a study can set; None: not declared
    after_ranking: bool
    function: Check
    # Its findings in a few words: what a FLAG says against the number itself ("" where it concerns
    # what stands beside it), why a number with its BLOCK is invalid, and else what it is about.
    doubt: str
    blocked: str
    note: str
    remedy: Remedy  # that several checks share, or CHECK

    @property
    def about(self) -> str:
        """What a finding that blocks nothing is about."""
        return self.note or self.doubt or self.title


_CHECKS: dict[str, Entry] = {}


def check(  # noqa: PLR0913  (all that is said of a check stands beside its function)
    identifier: str,
    title: str,
    *,
    rule: str,
    verdict: str,
    applies: str = "L,I",
    after_ranking: bool = False,
    doubt: str = "",
    blocked: str = "see the checks",
    note: str = "",
    remedy: Remedy = Remedy.CHECK,
    **limits: float | None,
) -> Callable[[Check], Check]:
    """Register a check, with its words (see `Entry`) and what a study can set (`limits`).

    One that judges a claim runs after the blocks of the others are known (`after_ranking`).
    """

    def register(function: Check) -> Check:
        if identifier in _CHECKS:
            raise ValueError(f"{identifier} is registered twice")
        _CHECKS[identifier] = Entry(
            identifier,
            title,
            rule,
            verdict,
            applies,
            limits,
            after_ranking,
            function,
            doubt,
            blocked,
            note,
            remedy,
        )
        return function

    return register


def registered(identifier: str) -> Entry:
    """Return a check by its id."""
    return _CHECKS[identifier]


def catalogue() -> list[Entry]:
    """Return every check, by id."""
    return sorted(_CHECKS.values(), key=lambda entry: entry.id)


def run_checks(evidence: Evidence) -> tuple[list[Finding], list[TargetResult]]:
    """Run all checks; return their findings by id, and the results with blocked phases marked."""
    early = [_run(entry, evidence) for entry in catalogue() if not entry.after_ranking]
    blocked = {key: finding.id for finding in reversed(early) for key in finding.blocks}
    results = [result.block(blocked) for result in evidence.results]
    judged = replace(evidence, results=results)
    late = [_run(entry, judged) for entry in catalogue() if entry.after_ranking]
    return sorted([*early, *late], key=lambda finding: finding.id), results


def _run(entry: Entry, evidence: Evidence) -> Finding:
    finding = _judge(entry, evidence)
    changed = evidence.run.study.checks.get(entry.id)
    if changed:
        limits = ", ".join(f"{name} = {value:g}" for name, value in changed.items())
        seen = f"{finding.evidence} (The study sets {limits}.)"
        finding = replace(finding, evidence=seen)
    return replace(finding, id=entry.id, title=entry.title)


def _judge(entry: Entry, evidence: Evidence) -> Finding:
    """Missing evidence is never ok: what only a live trial can show is unverified elsewhere."""
    if entry.applies == "L" and evidence.live.is_empty() and not evidence.imported.is_empty():
        return Finding(Verdict.UNVERIFIED, "Imported files do not hold the evidence for this.")
    return entry.function(evidence)
