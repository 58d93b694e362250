"""Whether every cell is there, as often as the others."""

from __future__ import annotations

import math

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import count, listing
from savemark.records.naming import LEADING, setting
from savemark.records.record import Error

# So many times the combinations that are there, and it was no design of all.
SPARSE = 4


@check(
    "HC-20",
    "No cell failed or is missing",
    rule="trials that failed, did not run, or have fewer repeats than others",
    verdict="FLAG",
    note="trials failed or are missing",
)
def complete(evidence: Evidence) -> Finding:
    """List what was planned and is not in the numbers."""
    run = evidence.run
    failed, missing = run.failed, run.missing
    planned = len(run.plan) or len(run.entries)
    which = f", first {run.unreadable[0]}" if run.unreadable else ""
    lost = f" {count(run.unreadable_lines, 'line')} could not be read{which}."
    torn = lost if run.unreadable_lines else ""
    holes = _holes(evidence) if not missing else ""
    if not failed and not missing and not holes:
        if not planned:
            return Finding(Verdict.UNVERIFIED, "The run holds no trial." + torn)
        left = sum(level.cells for level in run.missing_levels)
        less = f" {count(left, 'setting')} of the study cannot be measured here." if left else ""
        return Finding(Verdict.OK, f"All {planned} trials of the plan finished." + less + torn)
    parts, fixes, cause = [], [], ""
    if failed:
        names = (setting(e.factors) if e.role == "trial" else e.name for e in failed)
        parts.append(f"{count(len(failed), 'trial')} of {planned} failed ({listing(names)})")
        error = failed[0].error or Error()
        cause = f"The first said: {(error.message or 'nothing').rstrip('.')}."
        hint = (error.hint or "").rstrip(".")
        fixes.append(
            hint[:1].upper() + hint[1:] + "." if hint else f"See {run.unfinished}/log.txt."
        )
    if missing:
        parts.append(f"{count(len(missing), 'trial')} of {planned} did not run")
        fixes.append(f"Finish them: savemark run --resume {run.unfinished}.")
    if missing and run.origin == "imported":
        # What timed out is often what was slow: averages over the rest look better than they are.
        names = (setting(e.factors) for e in missing)
        many = count(len(missing), "trial")
        parts[-1] = f"{many} of {planned} did not run or are not in the files "
        parts[-1] += f"({listing(names)})"
        fixes[-1] = "Compare only settings that both sides have, and say which were left out."
    if holes:
        parts.append(holes)
        fixes.append("Compare only settings that both sides have, and say which were left out.")
    return Finding(
        Verdict.FLAG,
        "; ".join(parts) + "; medians are of what finished." + torn,
        cause,
        " ".join(fix for fix in fixes if fix),
    )


def _dropped(rows: pl.DataFrame) -> list[str]:
    """What tables (rates without times) show of one phase and not of another."""
    tables = rows.filter(pl.col("elapsed_ns").is_null() & (pl.col("reported_bytes_per_s") > 0))
    parts = []
    groups = tables.filter(pl.col("phase").is_in(["read", "write"])).group_by(
        "label", "given", maintain_order=True
    )
    for _, table in groups:
        have = {
            str(phase): set(part["setting"])
            for (phase,), part in table.group_by("phase", maintain_order=True)
        }
        if not have.get("read", set()) & have.get("write", set()):
            continue  # they are tables of two things
        for phase, others in (("read", "write"), ("write", "read")):
            lacking = have.get(others, set()) - have.get(phase, set())
            if have.get(phase) and lacking:
                many = count(len(lacking), "setting")
                parts.append(f"the table has no {phase} of {many} ({listing(sorted(lacking))})")
    return parts


def _holes(evidence: Evidence) -> str:
    """What imported trials lack of a full and even design; there is no plan to compare with."""
    rows = evidence.imported
    if rows.is_empty():
        return ""
    names = [name for name in evidence.run.study.factors if name in rows.columns]
    names = names or [name for name in LEADING if rows[name].n_unique() > 1]
    parts = []
    if len(names) > 1:
        full = math.prod(rows[name].n_unique() for name in names)
        there = rows.select(names).n_unique()
        # Files of several experiments are no design of all combinations.
        if there < full <= SPARSE * there:
            parts.append(f"{there} of {full} combinations of {listing(names)} are there")
    counts = rows.group_by("label", "setting", "phase").len()["len"]
    if counts.n_unique() > 1:
        low, high = min(counts), max(counts)
        parts.append(f"settings have {low} to {high} repeats")
    parts += _dropped(rows)
    return "; ".join(parts)
