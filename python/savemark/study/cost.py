"""What a trial will take: seconds and bytes, from rates measured by a short calibration."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from savemark.study.keys import Trial

# Per trial: opening files, durability, removing them, starting threads.
OVERHEAD_S = 0.05
# Rough, and small beside the rest: only the total has to be about right.
SYNC_S = 3e-3
RANDOM_IO_S = 2e-5
MEMORY_BYTES_PER_S = 4e9
# Starting a program and CRIU twice; filling it, dumping it and asking it go at the speed of a pipe.
PROCESS_S = 1.0
PIPE_BYTES_PER_S = 4e8
# One item made, looked at, read, renamed and removed; one cell of the solver.
ITEM_S = 5e-5
CELL_S = 1e-9


@dataclass(frozen=True)
class Codec:
    """One codec on one core: user bytes per second, and stored bytes per user byte."""

    encode: float = math.inf
    decode: float = math.inf
    stored: float = 1.0


@dataclass(frozen=True)
class Storage:
    """One storage on one target: bytes per second."""

    save: float
    restore: float


@dataclass(frozen=True)
class Rates:
    """What the calibration found, or assumed."""

    cores: int
    storages: dict[tuple[str, str], Storage]  # by label and storage
    codecs: dict[tuple[str, object], Codec] = field(default_factory=dict)  # by codec and level

    def codec(self, trial: Trial) -> Codec:
        """Return the rates of a trial's codec; those of none and tar are the memory's."""
        return self.codecs.get((str(trial.get("codec")), trial.get("level")), Codec())


@dataclass(frozen=True)
class Cost:
    """Seconds, bytes written in all, bytes held at one time."""

    seconds: float
    written: float = 0.0
    held: float = 0.0


def cost(trial: Trial, label: str, rates: Rates) -> Cost:
    """Estimate one trial whose sizes are bytes."""
    match trial.get("workload"):
        case "checkpoint" | "process" as what:
            files = _checkpoint(trial, label, rates)
            return _with_program(trial, files) if what == "process" else files
        case "codec":
            codec, size = rates.codec(trial), float(trial["size"])
            return Cost(OVERHEAD_S + size / codec.encode + size / codec.decode)
        case "memcpy":
            return Cost(OVERHEAD_S + trial["size"] / MEMORY_BYTES_PER_S)
        case "metadata":
            return _metadata(trial)
        case "iterate":
            return _iterate(trial, label, rates)
        case _:
            return _transfers(trial, label, rates)


def _checkpoint(trial: Trial, label: str, rates: Rates) -> Cost:
    size, streams = float(trial["size"]), int(trial.get("streams", 4))
    codec, storage = rates.codec(trial), _storage(trial, label, rates)
    stored = size * codec.stored
    cores = min(max(streams, 1), rates.cores)
    save = stored / storage.save, size / (codec.encode * cores)
    restore = stored / storage.restore, size / (codec.decode * cores)
    # Streams overlap the codec with the storage; a sequential archive does one after the other.
    seconds = max(save) + max(restore) if streams else sum(save) + sum(restore)
    return Cost(OVERHEAD_S + seconds, stored, stored)


def _with_program(trial: Trial, files: Cost) -> Cost:
    """Add what a program takes beside its checkpoint: it is started, filled, dumped and asked."""
    return replace(files, seconds=PROCESS_S + trial["size"] / PIPE_BYTES_PER_S + files.seconds)


def _metadata(trial: Trial) -> Cost:
    """Estimate `metadata`; a small file takes a block of the disk."""
    items, file_bytes = int(trial["items"]), float(trial["file_size"])
    # Making, renaming and removing are synced, each file and its directory.
    seconds = items * (ITEM_S + (6 * SYNC_S if trial.get("sync") == "each" else 0))
    if trial.get("phase_deadline") is not None:
        seconds = min(seconds, 5 * float(trial["phase_deadline"]))
    return Cost(OVERHEAD_S + seconds, items * file_bytes, items * max(file_bytes, 4096))


def _iterate(trial: Trial, label: str, rates: Rates) -> Cost:
    """Estimate `iterate`; of a policy that makes a new file each time there are two at one time."""
    side, iterations = int(trial["side"]), int(trial["iterations"])
    saves, state = iterations // int(trial["every"]), 8.0 * side * side
    writes = {"rows": side, "bands": int(trial["workers"])}.get(str(trial["layout"]), 1)
    each = trial.get("policy") in ("fsync_each", "dsync", "linked")
    save = state / _storage(trial, label, rates).save + (writes if each else 1) * SYNC_S
    return Cost(
        OVERHEAD_S + saves * save + iterations * side * side * CELL_S, saves * state, 2 * state
    )


def _transfers(trial: Trial, label: str, rates: Rates) -> Cost:
    """Estimate `sequential` and `random`, which lay out a file before they read or overwrite it."""
    size, storage = float(trial["size"]), _storage(trial, label, rates)
    reads = trial.get("operation") == "read"
    random = trial["workload"] == "random"
    written = size * (reads + random + (not reads and not random))
    if trial.get("duration") is not None:
        body = float(trial["duration"])
    elif trial.get("sync") == "each":
        body = size / int(trial.get("transfer_size", 1 << 20)) * SYNC_S
    elif random:
        body = int(trial.get("operations") or size / 4096) * RANDOM_IO_S
    else:
        body = size / (storage.restore if reads else storage.save)
    prepare = size / storage.save if reads or random else 0.0
    return Cost(OVERHEAD_S + prepare + body, written, size)


def _storage(trial: Trial, label: str, rates: Rates) -> Storage:
    memory = Storage(MEMORY_BYTES_PER_S, MEMORY_BYTES_PER_S)
    return rates.storages.get((label, str(trial.get("storage"))), memory)
