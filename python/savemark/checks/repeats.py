"""Whether the repeats carry the claim that one setting is the best."""

from __future__ import annotations

import polars as pl

from savemark.checks.registry import Evidence, Finding, Remedy, Verdict, check
from savemark.checks.wording import count, difference, keys, listing, settings
from savemark.stats import TOTAL, Ranking, TargetResult
from savemark.stats.contrasts import LEAST
from savemark.stats.spread import N_FOR_INTERVAL

NOTHING = "Nothing can be ranked: no setting has what it takes, or the fastest is forbidden."


def leader(result: TargetResult) -> Ranking | None:
    """The ranking that the decision rests on: total time, else whatever phase can be ranked."""
    rankings = (result.ranking(measure) for measure in (TOTAL, *result.phases))
    return next((ranking for ranking in rankings if ranking), None)


def _rankings(evidence: Evidence) -> list[Ranking]:
    """Who leads on each target, for each kind of what is saved."""
    parts = (part for result in evidence.results for part in result.by_given().values())
    return [found for part in parts if (found := leader(part))]


@check(
    "HC-17",
    "Enough repeats for the claim",
    rule="below 6 repeats every test supposes something of the noise; below 3 there is none",
    verdict="NOTE; without a test all are tied",
    after_ranking=True,
    remedy=Remedy.REPEATS,
)
def enough(evidence: Evidence) -> Finding:
    """Say what these repeats allow to be claimed of the best setting, and on what supposition."""
    rankings = _rankings(evidence)
    weak = [each for each in rankings if each.compared > 1 and each.repeats < N_FOR_INTERVAL]
    if not rankings:
        return Finding(Verdict.UNVERIFIED, NOTHING)
    if not weak:
        return Finding(Verdict.OK, "Every setting has the repeats that its comparison needs.")
    found = min(weak, key=lambda each: each.repeats)
    repeats, of = count(found.repeats, "repeat"), f"one of {found.compared} settings"
    if not found.tested:
        return Finding(
            Verdict.NOTE,
            f"{repeats} cannot prove {of} to be the best; no test can, below {LEAST}.",
            "So all settings are called tied, and no winner is claimed.",
            f"--repeats {N_FOR_INTERVAL} is enough for a test.",
        )
    return Finding(
        Verdict.NOTE,
        f"{repeats} can prove {of} to be the best only if its noise is log-normal, "
        f"and only {difference(found.findable)} (in 4 of 5 such runs).",
        "What differs less is called tied.",
        f"--repeats {N_FOR_INTERVAL} is enough for a test that supposes no distribution.",
    )


@check(
    "HC-18",
    "The winner is distinguishable",
    rule="p < 0.05 over all pairs of settings, by sign flips of whole repeats (3 to 5 repeats: "
    "Tamhane's T2)",
    verdict='NOTE "tied with …"',
    after_ranking=True,
    remedy=Remedy.REPEATS,
)
def distinguishable(evidence: Evidence) -> Finding:
    """State the group that the repeats cannot separate; the wording of the verdict rests on it."""
    rankings = _rankings(evidence)
    if not rankings:
        return Finding(Verdict.UNVERIFIED, NOTHING)
    parts, tied = [], False
    for found in rankings:
        where = f" on {found.best.label}" if len(rankings) > 1 else ""
        rule = f"{found.test}, p ≥ 0.05 over all pairs" if found.tested else "too few repeats"
        if found.compared == 1:
            parts.append(f"{found.best.setting}{where} had nothing to be compared with")
        elif found.tied:
            tied = True
            names = listing((cell.setting for cell in found.tied), 6)
            parts.append(f"{found.best.setting}{where} is tied with {names} ({rule})")
        else:
            parts.append(f"{found.best.setting}{where} is apart from all others ({rule}: none)")
    if not tied:
        return Finding(Verdict.OK, "; ".join(parts) + ".")
    return Finding(
        Verdict.NOTE,
        "; ".join(parts) + ".",
        f"What lies between them is within the spread of the repeats{_shown(rankings)}.",
        "Within 5 % choose by CPU or bytes; to tell others apart, repeat: --until 'ci<3%'.",
    )


def _shown(rankings: list[Ranking]) -> str:
    """The power, of the ranking that can tell least."""
    known = [each.findable for each in rankings if each.findable is not None]
    return f"; 4 of 5 such runs would show {difference(max(known))}" if known else ""


@check(
    "HC-40",
    "Not the best of several",
    rule="a number that is a minimum or maximum of several runs, or a choice made by such",
    verdict="FLAG",
    doubt="the numbers are the best of several runs",
)
def not_the_best(evidence: Evidence) -> Finding:
    """Flag numbers that are the luckiest of several: the winner's curse."""
    rows = evidence.imported
    if rows.is_empty():
        return Finding(Verdict.OK, "Settings are ranked by medians of all repeats.")
    best = rows.filter(pl.col("statistic").is_in(["min", "max", "best"]))
    if not best.is_empty():
        return Finding(
            Verdict.FLAG,
            f"{settings(keys(best))}: the number is the best of several runs.",
            "The best of many is partly luck, and the luckier setting wins.",
            "Import every repeat, or measure the winner again in fresh runs.",
        )
    if rows["statistic"].null_count() and rows["repeat"].n_unique() < 2:
        return Finding(Verdict.UNVERIFIED, "Of how many runs these numbers are is not recorded.")
    return Finding(Verdict.OK, "Every repeat is there; settings are ranked by medians.")
