"""Whether what is compared was kept apart: places, files and objects of its own for each."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import keys, listing, settings
from savemark.records import Target
from savemark.records.evidence import WRITES

# ${JOB}, $JOB, {{job}}, %(job)s and <job>: what a shell or a template should have filled in.
UNFILLED = re.compile(r"\$\{\w+\}|\$[A-Za-z_]\w*|\{\{.*?\}\}|%\(\w+\)s|<[A-Za-z_]\w*>")


@check(
    "HC-23",
    "Runs do not share state",
    rule="two targets are the same place, or one lies in the other; a variable in a target or a "
    "command was never filled in, so that all runs share one name",
    verdict="BLOCK",
    blocked="runs share a place",
)
def apart(evidence: Evidence) -> Finding:
    """Block what may have read, or written over, the files of something else."""
    unfilled = _unfilled(evidence)
    if unfilled is not None:
        return unfilled
    shared = _shared(evidence.run.targets)
    if shared is not None:
        one, other = shared
        found = keys(evidence.live.filter(pl.col("label").is_in([one.label, other.label])))
        return Finding(
            Verdict.BLOCK,
            f"{one.label} and {other.label} are not apart: {one.target} and {other.target}.",
            "Each reads what the other left in caches, and counts what the other holds.",
            "Give each target a directory or a prefix of its own.",
            found,
        )
    if evidence.live.is_empty():
        if evidence.imported["command"].drop_nulls().is_empty():
            return Finding(Verdict.UNVERIFIED, "No command is recorded that names the place.")
        return Finding(Verdict.OK, "Every variable in the recorded commands was filled in.")
    return Finding(Verdict.OK, "Each trial writes into a folder of its own, and removes it.")


def _unfilled(evidence: Evidence) -> Finding | None:
    rows = evidence.imported.filter(pl.col("command").is_not_null())
    texts = {
        str(text): UNFILLED.findall(str(text))
        for text in rows["command"].unique(maintain_order=True)
    }
    texts = {text: names for text, names in texts.items() if names}
    names = [name for found in texts.values() for name in found]
    names += [n for t in evidence.run.targets for n in UNFILLED.findall(t.target)]
    if not names:
        return None
    found = keys(rows.filter(pl.col("command").is_in(list(texts)))) if texts else ()
    wrote = keys(evidence.live.filter(pl.col("phase").is_in(WRITES)))
    blocked = found or wrote
    return Finding(
        Verdict.BLOCK,
        f"{settings(blocked)}: {listing(names)} was not filled in."
        if blocked
        else f"{listing(names)} was not filled in.",
        "Every run has used one and the same name, so later ones met what earlier ones left.",
        "Define the variable, or quote the script so that it is expanded, and measure again.",
        blocked,
    )


def _shared(targets: list[Target]) -> tuple[Target, Target] | None:
    """Two targets of which one holds the other; buckets are parted by their prefix."""
    places = [(target, PurePosixPath(target.target.rstrip("/") or "/")) for target in targets]
    for index, (one, path) in enumerate(places):
        for other, deeper in places[index + 1 :]:
            if path == deeper or path in deeper.parents or deeper in path.parents:
                return one, other
    return None
