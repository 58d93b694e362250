"""Whether the repeats carry the claim that one setting is the best."""

from __future__ import annotations

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import count, keys, listing, settings
from savemark.stats import TOTAL, Ranking, TargetResult, smallest_p


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
    rule="repeats below what an exact Mann-Whitney test, Holm-corrected, needs to reach p < 0.05",
    verdict="NOTE; no winner is claimed",
    after_ranking=True,
)
def enough(evidence: Evidence) -> Finding:
    """Suppress the claim of a single winner that no exact test could support with these repeats."""
    rankings = _rankings(evidence)
    weak = [found for found in rankings if not found.tested and found.compared > 1]
    if not rankings:
        return Finding(Verdict.UNVERIFIED, "There is nothing to rank.")
    if not weak:
        return Finding(Verdict.OK, "Every setting has the repeats that its comparison needs.")
    found = max(weak, key=lambda each: each.needed)
    n = min(cell.n for cell in (found.best, *found.tied)) if found.tied else found.best.n
    return Finding(
        Verdict.NOTE,
        f"{count(n, 'repeat')} cannot prove one of {found.compared} settings to be the best "
        f"(smallest possible p = {smallest_p(n, n):.2g}, needed: "
        f"{0.05 / (found.compared - 1):.2g}).",
        "So settings are called tied when their ranges overlap, and no winner is claimed.",
        f"--repeats {found.needed} is enough for a test.",
    )


@check(
    "HC-18",
    "The winner is distinguishable",
    rule="exact Mann-Whitney against the best, Holm-corrected (few repeats: overlapping ranges)",
    verdict='NOTE "tied with …"',
    after_ranking=True,
)
def distinguishable(evidence: Evidence) -> Finding:
    """State the group that the repeats cannot separate; the wording of the verdict rests on it."""
    rankings = _rankings(evidence)
    if not rankings:
        return Finding(Verdict.UNVERIFIED, "There is nothing to rank.")
    parts, tied = [], False
    for found in rankings:
        where = f" on {found.best.label}" if len(rankings) > 1 else ""
        rule = "exact Mann-Whitney, Holm-corrected, p ≥ 0.05" if found.tested else "ranges overlap"
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
        "What lies between them is within the spread of the repeats.",
        "Within 5 % choose by CPU or bytes; to tell others apart, repeat: --until 'ci<3%'.",
    )


@check(
    "HC-40",
    "Not the best of several",
    rule="a number that is a minimum or maximum of several runs, or a choice made by such",
    verdict="FLAG",
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
