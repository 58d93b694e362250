"""What this machine and these targets cannot run, found out once before the run."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import savemark._engine as engine
from savemark.errors import SavemarkError, from_exception
from savemark.study.keys import Keys, Trial, resolve, split_ours, tool_of
from savemark.study.model import PART, Missing, Study

MIB = 1 << 20
# What would end the run at the first such trial. The options were checked before; what is wrong
# with them now is the place.
STOPPING = ("refused", "usage")
OVERHEAD_TRIALS = 5
# The line of the run folder that is written and synced after each trial.
LEAST_OVERHEAD_S = 3e-3
# Besides the options of storages, what a filesystem or a machine may not have.
REFUSABLE = ("storage", "stripe_count", "stripe_size")
# As little work as shows whether a trial can run at all.
SMALL = {
    "duration": 0.01,
    "operations": 1,
    "segments": 1,
    "iterations": 1,
    "every": 1,
    "phase_deadline": 0.01,
}


@dataclass(frozen=True)
class Probed:
    """The study without what cannot run here, and what a trial takes besides its phases."""

    study: Study
    overhead_s: float | None  # None where no cell was tried


def probe(study: Study, keys: Keys, workspaces: Mapping[str, str], one: engine.Engine) -> Probed:
    """Try a small trial of each level that may be refused, on each target; leave out what is.

    A refusal is the engine's: no such device, no stripes in this filesystem, no O_DIRECT. If a
    target refuses every cell there is nothing to measure, and its reason is the error.
    """
    missing: list[Missing] = []
    overheads: list[float] = []
    for label, place in workspaces.items():
        refusals, errors = [], []
        rules = _rules(study, label, keys)
        for rule, cells in rules:
            trial = _first(study.with_size(MIB), keys, label, cells)
            error, overhead = (None, None) if trial is None else _try(trial, place, one)
            if overhead is not None:
                overheads.append(overhead)
            if error is not None:
                errors.append(error)
                # The run's folder in the target will be gone when this is read.
                reason = error.message.replace(place, place.rsplit("/", 1)[0])
                here = {**rule, "target": label}
                refusals.append(Missing(here, reason, error.hint, len(cells)))
        if rules and len(refusals) == len(rules):
            raise errors[0]
        missing += refusals
    middle = sorted(overheads)[len(overheads) // 2] if overheads else None
    return Probed(replace(study, missing=[*study.missing, *missing]), middle)


def _rules(
    study: Study, label: str, keys: Keys
) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The combinations of levels that may be refused as one, each with the cells that have it."""
    refusable = {PART, *REFUSABLE} | keys.of_storages()
    groups: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {}
    for cell in study.cells_at(label):
        rule = {name: level for name, level in cell.items() if name in refusable}
        groups.setdefault(repr(rule), (rule, []))[1].append(cell)
    return list(groups.values())


def _first(study: Study, keys: Keys, label: str, cells: list[dict[str, Any]]) -> Trial | None:
    """Return the trial of the first of some cells that is this program's own, if one is.

    Other programs say themselves what they lack.
    """
    trials = (study.trial_at(label, study.own(cell), cell, keys) for cell in cells)
    return next((trial for trial in trials if not tool_of(trial)), None)


def _try(asked: Trial, place: str, one: engine.Engine) -> tuple[SavemarkError | None, float | None]:
    """Run a small trial; return why it was refused, and what it took besides its phases.

    Anything else that goes wrong is left to the trials: it is recorded there.
    """
    began = time.perf_counter()
    try:
        trial = small(resolve(split_ours(asked)[0], place))
        record = json.loads(one.run(json.dumps(trial)))
    except engine.EngineError as raised:
        error = from_exception(raised)
        if error is not None and error.kind == "interrupted":
            raise
        return (error, None) if error is not None and error.kind in STOPPING else (None, None)
    phases = sum(int(phase["elapsed_ns"]) for phase in record["phases"])
    return None, max(0.0, time.perf_counter() - began - phases / 1e9)


def overhead(study: Study, keys: Keys, one: engine.Engine) -> float | None:
    """What a trial takes besides its phases, without a storage: for a dry run, which may not write.

    None where the study's first workload needs a storage.
    """
    cell = study.with_size(MIB).cells()[0]
    trial = study.with_size(MIB).trial_of(study.own(cell), cell, keys)
    known = keys.accepted(trial.get("workload"), "null")
    bare = {name: value for name, value in trial.items() if name in known} | {"storage": "null"}
    times = []
    for _ in range(OVERHEAD_TRIALS):
        began = time.perf_counter()
        try:
            record = json.loads(one.run(json.dumps(small(resolve(bare)))))
        except engine.EngineError:
            return None
        phases = sum(int(phase["elapsed_ns"]) for phase in record["phases"])
        times.append(time.perf_counter() - began - phases / 1e9)
    return LEAST_OVERHEAD_S + max(0.0, sorted(times)[len(times) // 2])


def small(trial: Trial) -> Trial:
    """Return a resolved trial with the same options that does next to nothing."""
    workers = max(int(trial.get(name) or 1) for name in ("workers", "streams"))
    least = {"items": workers, "size": max(MIB, workers * int(trial.get("transfer_size") or 4096))}
    # A limit that the trial does not have might make it another trial (a time instead of a length).
    less = {name: value for name, value in {**SMALL, **least}.items() if trial.get(name)}
    # A state to save may be as large as any: the storage refuses a small one alike.
    return {**trial, **less, **({"state": None} if "state" in trial else {})}
