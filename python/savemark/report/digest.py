"""The result as data: what `--json` prints and other programs read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from savemark.records import Run
from savemark.report import expecting, io500, settings, stopping
from savemark.report.analysis import Analysis, analyse
from savemark.report.verdict import decision
from savemark.stats import TOTAL, Ceiling, Ranking, TargetResult


def digest(source: Path | Run, *, show_blocked: bool = False) -> dict[str, Any]:
    """Return verdict, best, ties, cells, ceilings, notes and validity."""
    return of(analyse(source, show_blocked=show_blocked))


def of(analysis: Analysis) -> dict[str, Any]:
    """The same for a run that was already read."""
    run, (state, words) = analysis.run, analysis.badge
    return {
        "schema": 1,
        "run_id": run.run_id,
        "run_dir": str(run.folder),
        "study": run.study_name,
        "savemark_version": run.version,
        "started_at": run.started_at,
        "valid": state != "invalid",
        "validity": words,
        "verdict": " ".join(decision(analysis)),
        "expected": expecting.as_json(analysis),
        "targets": [_target(result) for result in analysis.results],
        "cells": settings.rows(analysis),
        "notes": [
            {"id": f.id, "verdict": f.verdict.value, "evidence": f.evidence, "cause": f.cause}
            | {"fix": f.fix}
            for f in analysis.fired
        ],
        "unverified": [{"id": f.id, "evidence": f.evidence} for f in analysis.unverified],
        "stopping": stopping.as_json(run),
        **({"io500": scores} if (scores := io500.as_json(analysis)) else {}),
        "trials": {
            "planned": len(run.plan),
            "finished": sum(entry.ok for entry in run.entries),
            "failed": len(run.failed),
            "not_run": len(run.missing),
            "unavailable": run.missing_levels,
        },
    }


def _target(result: TargetResult) -> dict[str, Any]:
    rankings = {name: result.ranking(name) for name in (TOTAL, *result.phases)}
    return {
        "label": result.label,
        "target": result.target,
        "best": {name: _ranking(found) for name, found in rankings.items()},
        "ceilings": [_ceiling(ceiling) for ceiling in result.ceilings.values()],
    }


def _ranking(found: Ranking | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "setting": found.best.setting,
        "tied": [cell.setting for cell in found.tied],
        "rule": found.test or "too few repeats to test",
        "findable_share": found.findable,
    }


def _ceiling(c: Ceiling) -> dict[str, Any]:
    return {
        "name": c.name,
        "phase": c.phase,
        "bytes_per_s": c.rate,
        "operations_per_s": c.iops,
        "sync_ns": c.sync_ns,
        "ratio": c.ratio,
        "n": c.seconds.n,
    }
