"""`size: auto`: a short calibration, then the largest size with which the study fits its budget."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import savemark.study.cost as model
from savemark.gpus import is_on_gpus
from savemark.study.keys import OURS, Keys, Trial, resolve
from savemark.study.model import PLACELESS, Study
from savemark.study.plan import SMALLEST_AUTO_BYTES, Entry, block

MIB = 1 << 20
MAX_BYTES = 4096 * MIB
CALIBRATION_BYTES = 64 * MIB
SMALL_CALIBRATION_BYTES = 16 * MIB  # where 64 MiB would be a good part of what is free
CODEC_BYTES = 32 * MIB
# The rest of the budget is for the calibration, the report, and for what a model does not know.
SHARE_FOR_TRIALS = 0.85
# For a dry run, which may not write: stated beside every figure that comes from it.
ASSUMED = model.Storage(1e9, 1e9)

Run = Callable[[Trial], dict[str, Any]]


def nice_sizes() -> list[int]:
    """Return the sizes that `auto` chooses from, largest first: 16 MiB × {1, 1.5} × 2^n."""
    powers = [SMALLEST_AUTO_BYTES << n for n in range(9)]
    halves = [size + size // 2 for size in powers]
    return sorted((size for size in powers + halves if size <= MAX_BYTES), reverse=True)


def calibrate(study: Study, keys: Keys, run: Run, workspaces: Mapping[str, str]) -> model.Rates:
    """Measure each codec in memory, and each storage with one small checkpoint per target.

    `workspaces` has a directory or URL per label; none in a dry run, which may not write.
    """
    sized = study.with_size(CALIBRATION_BYTES)
    cells = sized.cells()
    label = next((label for label in workspaces), "")
    trials = [resolve(sized.trial_at(label, sized.own(cell), cell, keys)) for cell in cells]
    codecs: dict[tuple[str, object], model.Codec] = {}
    for trial in trials:
        name, level = str(trial.get("codec", "none")), trial.get("level")
        if name not in ("none", "tar") and (name, level) not in codecs:
            codecs[name, level] = _codec(trial, keys, run)
    storages: dict[tuple[str, str], model.Storage] = {}
    for label, place in workspaces.items():
        for cell in sized.cells_at(label):
            trial = resolve(sized.trial_at(label, sized.own(cell), cell, keys), place)
            at = label, str(trial["storage"])
            if at not in storages and trial["storage"] not in PLACELESS:
                storages[at] = _storage(trial, place, keys, run)
    cores = len(os.sched_getaffinity(0))
    return model.Rates(cores=cores, storages=storages, codecs=codecs)


def assume_storage(rates: model.Rates, study: Study, keys: Keys, labels: list[str]) -> model.Rates:
    """Fill in the storages that a dry run may not measure."""
    assumed = {
        (label, str(study.trial_at(label, study.own(cell), cell, keys)["storage"])): ASSUMED
        for label in labels
        for cell in study.cells_at(label)
    }
    return replace(rates, storages={**assumed, **rates.storages})


def _codec(trial: Trial, keys: Keys, run: Run) -> model.Codec:
    keep = keys.accepted("codec", "null") - {"target", *OURS}
    probe = {k: v for k, v in trial.items() if k in keep and not is_on_gpus(v)}
    probe |= {"workload": "codec", "storage": "null", "size": CODEC_BYTES, "workers": 1}
    phases = _phases(run(probe))
    encode, decode = phases["encode"], phases["decode"]
    return model.Codec(
        encode=_rate(encode),
        decode=_rate(decode),
        stored=encode["stored_bytes"] / max(1, encode["user_bytes"]),
    )


def _storage(trial: Trial, place: str, keys: Keys, run: Run) -> model.Storage:
    # Options of another workload may have the same name and mean something else.
    own = "checkpoint" if trial["workload"] == "checkpoint" else None
    keep = keys.accepted(own, trial["storage"]) - {"level", "state", *OURS}
    probe = {k: v for k, v in trial.items() if k in keep}
    probe |= {"workload": "checkpoint", "codec": "none", "streams": 4}
    if trial["storage"] == "gds":
        probe["transfer"] = "cpu"  # a checkpoint looks at its bytes, which stay on GPUs otherwise
    probe["size"] = calibration_bytes(free_bytes(place))
    phases = _phases(run({**probe, "target": place}))
    return model.Storage(save=_rate(phases["save"]), restore=_rate(phases["restore"]))


def free_bytes(place: str) -> int | None:
    """Return the room in a directory; None for the URL of a bucket."""
    if "://" in place:
        return None
    filesystem = os.statvfs(place)
    return filesystem.f_bavail * filesystem.f_frsize


def calibration_bytes(free: int | None) -> int:
    """Return the size of the checkpoint that measures a storage with this room."""
    roomy = free is None or free >= 4 * CALIBRATION_BYTES
    return CALIBRATION_BYTES if roomy else SMALL_CALIBRATION_BYTES


def _phases(record: dict[str, Any]) -> dict[str, Any]:
    return {phase["name"]: phase for phase in record["phases"]}


def _rate(phase: dict[str, Any]) -> float:
    return float(max(1, phase["user_bytes"]) / max(1, phase["elapsed_ns"]) * 1e9)


def total(study: Study, keys: Keys, labels: list[str], rates: model.Rates) -> model.Cost:
    """Return what the whole plan takes; `held` is the most that any trial holds at one time."""
    found = [(entry.label, entry_cost(entry, study, keys, rates)) for entry in block(study, labels)]
    costs = [cost for _, cost in found]
    # Files that stay for the next trial are written once, and stand beside what a trial makes.
    kept = sum(size for _, size in {(label, cost.kept) for label, cost in found})
    once = kept / min(
        (each.save for each in rates.storages.values()), default=model.MEMORY_BYTES_PER_S
    )
    return model.Cost(
        seconds=study.repeats * sum(cost.seconds for cost in costs) + once,
        written=study.repeats * sum(cost.written for cost in costs) + kept,
        held=max(cost.held - cost.kept for cost in costs) + kept / max(1, len(labels)),
    )


def entry_cost(entry: Entry, study: Study, keys: Keys, rates: model.Rates) -> model.Cost:
    """Return what one entry of the plan takes."""
    return model.cost(resolve(entry.trial(study, keys)), entry.label, rates)


def held_bytes(study: Study, keys: Keys, labels: list[str]) -> float:
    """Return the most that a study of known size holds at one time, before anything is measured."""
    return total(study, keys, labels, model.Rates(cores=1, storages={})).held


def choose(
    study: Study, keys: Keys, labels: list[str], rates: model.Rates, limit_bytes: int
) -> int:
    """Return the largest nice size within `limit_bytes` that fits the budget; at least 16 MiB."""
    budget_s = SHARE_FOR_TRIALS * study.budget_s
    for size in nice_sizes():
        fits = total(study.with_size(size), keys, labels, rates).seconds <= budget_s
        if size <= limit_bytes and fits:
            return size
    return SMALLEST_AUTO_BYTES
