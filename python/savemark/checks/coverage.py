"""Whether every cell is there, as often as the others."""

from __future__ import annotations

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import count, listing
from savemark.records.frame import setting


@check("HC-20", "No cell failed or is missing")
def complete(evidence: Evidence) -> Finding:
    """List what was planned and is not in the numbers."""
    run = evidence.run
    failed, missing = run.failed, run.missing
    planned = len(run.plan) or len(run.entries)
    torn = (
        f" {count(run.unreadable_lines, 'line')} could not be read." if run.unreadable_lines else ""
    )
    if not failed and not missing:
        if not planned:
            return Finding(Verdict.UNVERIFIED, "The run holds no trial." + torn)
        return Finding(Verdict.OK, f"All {planned} trials of the plan finished." + torn)
    parts, fixes, cause = [], [], ""
    if failed:
        names = (setting(e.factors) if e.role == "trial" else e.name for e in failed)
        parts.append(f"{count(len(failed), 'trial')} of {planned} failed ({listing(names)})")
        error = failed[0].error or {}
        cause = f"The first said: {str(error.get('message', 'nothing')).rstrip('.')}."
        hint = str(error.get("hint") or "").rstrip(".")
        fixes.append(hint[:1].upper() + hint[1:] + "." if hint else f"See {run.folder}/log.txt.")
    if missing:
        parts.append(f"{count(len(missing), 'trial')} of {planned} did not run")
        fixes.append(f"Finish them: savemark run --resume {run.folder}.")
    return Finding(
        Verdict.FLAG,
        "; ".join(parts) + "; medians are of what finished." + torn,
        cause,
        " ".join(fix for fix in fixes if fix),
    )
