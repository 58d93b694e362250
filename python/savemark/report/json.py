"""The result as data: what `--json` prints and other programs read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec

from savemark.advice.verdict import Rival, State
from savemark.records import Run
from savemark.report import answers, columns, expecting, io500, settings, stopping
from savemark.report.analysis import Analysis, analyse
from savemark.report.answers import LabelledAnswer
from savemark.report.facts import CEILING
from savemark.report.verdict import decision
from savemark.stats import TOTAL, Cell, Ranking, TargetResult


def digest(source: Path | Run, *, show_blocked: bool = False) -> dict[str, Any]:
    """Return verdict, best, ties, cells, ceilings, notes and validity."""
    return of(analyse(source, show_blocked=show_blocked))


def of(analysis: Analysis) -> dict[str, Any]:
    """The same for a run that was already read."""
    run, (valid, words) = analysis.run, analysis.badge
    state, reason = answers.state(analysis)
    step = answers.next_step(analysis)
    return {
        "schema": 1,
        "run_id": run.run_id,
        "run_dir": str(run.folder),
        "study": run.study_name,
        "savemark_version": run.version,
        "started_at": run.started_at,
        "valid": valid != "invalid",
        "validity": words,
        "state": state.value,
        "reason": reason,
        "verdict": " ".join(decision(analysis)),
        "next": step
        and {
            "command": step.command,
            "seconds": step.seconds,
            "written_bytes": step.written_bytes,
        },
        "expected": expecting.as_json(analysis),
        "targets": [_target(analysis, result) for result in analysis.results],
        "cells": settings.records(analysis),
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
            "unavailable": msgspec.to_builtins(run.missing_levels),
        },
    }


def _target(analysis: Analysis, result: TargetResult) -> dict[str, Any]:
    rankings = {name: result.ranking(name) for name in (TOTAL, *result.phases)}
    told = [each for each in answers.answers(analysis) if each.result.label == result.label]
    order = list(State)
    worst = max(told, key=lambda each: order.index(each.answer.state), default=None)
    pays = [each.pays.rate for each in told if each.pays]
    return {
        "label": result.label,
        "target": result.target,
        "state": (worst.answer.state if worst else answers.state(analysis)[0]).value,
        "reason": worst.answer.reason if worst else "",
        "answers": [_answer(each) for each in told],
        "codec_pays_below_bytes_per_s": max(pays, default=None),
        "best": {name: _ranking(found) for name, found in rankings.items()},
        "ceilings": [columns.fields(CEILING, ceiling) for ceiling in result.ceilings.values()],
    }


def _answer(labelled: LabelledAnswer) -> dict[str, Any]:
    """One verdict: `advised` is null where there is no advice; shares of time, less 1."""
    answer, pays = labelled.answer, labelled.pays
    return {
        "about": labelled.about,
        "measure": answer.measure,
        "state": answer.state.value,
        "reason": answer.reason,
        "advised": _cell(answer.advised),
        "fastest": _cell(answer.fastest),
        "baseline": _cell(answer.baseline),
        "as_fast": [cell.setting for cell in answer.as_fast],
        "slower": [_rival(each) for each in answer.slower],
        "unknown": [_rival(each) for each in answer.unknown],
        "codec_pays": pays
        and {
            "below_bytes_per_s": pays.rate,
            "codec": pays.codec,
            "streams": pays.streams,
            "ratio": pays.ratio,
        },
    }


def _cell(cell: Cell | None) -> dict[str, Any] | None:
    return (
        None
        if cell is None
        else {"setting": cell.setting, "factors": dict(cell.factors), "n": cell.n}
    )


def _rival(rival: Rival) -> dict[str, Any]:
    known = math.isfinite(rival.low) and math.isfinite(rival.high)
    return {
        "setting": rival.cell.setting,
        "slower_low": rival.low if known else None,
        "slower_high": rival.high if known else None,
        "repeats_that_would_tell": rival.more,
        "seconds": rival.seconds,
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
