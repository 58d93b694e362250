"""What a trial will take: seconds and bytes, from rates measured by a short calibration."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from savemark.study.keys import Trial, ranks_of

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
# Bytes of one I/O in the hard part of IO500; not from records.io500, which is heavy to import.
HARD_TRANSFER = 47_008


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
    overhead_s: float = OVERHEAD_S  # of one trial, besides what it measures

    def codec(self, trial: Trial) -> Codec:
        """Return the rates of a trial's codec; those of none and tar are the memory's."""
        return self.codecs.get((str(trial.get("codec")), trial.get("level")), Codec())


@dataclass(frozen=True)
class Cost:
    """Seconds, bytes written in all, bytes held at one time, and of those what stays."""

    seconds: float
    written: float = 0.0
    held: float = 0.0
    kept: float = 0.0


def cost(trial: Trial, label: str, rates: Rates) -> Cost:
    """Estimate one trial whose sizes are bytes."""
    workload = str(trial.get("workload"))
    return MODELS.get(workload, _transfers)(trial, label, rates)


def _codec(trial: Trial, _label: str, rates: Rates) -> Cost:
    codec, size = rates.codec(trial), float(trial["size"])
    return Cost(rates.overhead_s + size / codec.encode + size / codec.decode)


def _memcpy(trial: Trial, _label: str, rates: Rates) -> Cost:
    return Cost(rates.overhead_s + trial["size"] / MEMORY_BYTES_PER_S)


def _checkpoint(trial: Trial, label: str, rates: Rates) -> Cost:
    size, streams = float(trial["size"]), int(trial.get("streams", 4))
    codec, storage = rates.codec(trial), _storage(trial, label, rates)
    stored = size * codec.stored
    cores = min(max(streams, 1), rates.cores)
    save = stored / storage.save, size / (codec.encode * cores)
    restore = stored / storage.restore, size / (codec.decode * cores)
    # Streams overlap the codec with the storage; a sequential archive does one after the other.
    seconds = max(save) + max(restore) if streams else sum(save) + sum(restore)
    return Cost(rates.overhead_s + seconds, stored, stored)


def _program(trial: Trial, label: str, rates: Rates) -> Cost:
    """Estimate `process`: a checkpoint, and a program that is started, filled, dumped and asked."""
    files = _checkpoint(trial, label, rates)
    return replace(files, seconds=PROCESS_S + trial["size"] / PIPE_BYTES_PER_S + files.seconds)


def _metadata(trial: Trial, _label: str, rates: Rates) -> Cost:
    """Estimate `metadata`; a small file takes a block of the disk."""
    items, file_bytes = int(trial["items"]), float(trial["file_size"])
    # Making, renaming and removing are synced, each file and its directory.
    seconds = items * (ITEM_S + (6 * SYNC_S if trial.get("sync") == "each" else 0))
    if trial.get("phase_deadline") is not None:
        seconds = min(seconds, 5 * float(trial["phase_deadline"]))
    return Cost(rates.overhead_s + seconds, items * file_bytes, items * max(file_bytes, 4096))


def _copy(trial: Trial, label: str, rates: Rates) -> Cost:
    """Estimate `copy`, up and down; what it holds on the other disk is as much twice."""
    size, storage = float(trial["items"] * trial["file_size"]), _storage(trial, label, rates)
    seconds = size / storage.save + size / storage.restore + trial["items"] * 2 * SYNC_S
    return Cost(rates.overhead_s + seconds, size, size)


def _iterate(trial: Trial, label: str, rates: Rates) -> Cost:
    """Estimate `iterate`; of a policy that makes a new file each time there are two at one time."""
    side, iterations = int(trial["side"]), int(trial["iterations"])
    saves, state = iterations // int(trial["every"]), 8.0 * side * side
    if trial.get("duration") is not None:
        # What it writes in this time is bounded by the memory that takes it up.
        seconds = max(float(trial["duration"]), iterations * side * side * CELL_S)
        return Cost(OVERHEAD_S + seconds, seconds * _storage(trial, label, rates).save, 2 * state)
    writes = {"rows": side, "bands": int(trial["workers"])}.get(str(trial["layout"]), 1)
    each = trial.get("policy") in ("fsync_each", "dsync", "linked")
    save = state / _storage(trial, label, rates).save + (writes if each else 1) * SYNC_S
    return Cost(
        rates.overhead_s + saves * save + iterations * side * side * CELL_S,
        saves * state,
        2 * state,
    )


def _geometry(trial: Trial, label: str, rates: Rates) -> Cost:
    """Estimate `shared_file` and `file_per_process`, which write everything and read it back."""
    workers = int(trial["workers"]) * ranks_of(trial)
    size = float(trial["block_size"]) * int(trial["segments"]) * workers
    storage = _storage(trial, label, rates)
    limit = float(trial.get("phase_deadline") or math.inf)
    seconds = sum(min(size / speed, limit) for speed in (storage.save, storage.restore))
    return Cost(rates.overhead_s + seconds, size, size)


def _io500(trial: Trial, label: str, rates: Rates) -> Cost:
    """Estimate `io500`: four writes until the deadline, and what looks at what they made.

    What a storage that nobody has measured takes up until then is not known.
    """
    limit, workers = float(trial["phase_deadline"]), int(trial["workers"]) * ranks_of(trial)
    storage = rates.storages.get((label, str(trial.get("storage"))))
    most = limit * storage.save if storage else 0.0
    each = float(trial["block_size"]), float(trial["segments"]) * HARD_TRANSFER
    sizes = [size * workers for size in each]
    moved = [min(size, most) for size in sizes]
    reads = sum(moved) / storage.restore if storage else 2 * limit
    writes = sum(moved) / storage.save if storage else 2 * limit
    items = min(float(trial["files_per_worker"]) * workers, limit / ITEM_S)
    held = sum(moved) + items * 4096
    return Cost(rates.overhead_s + writes + reads + 8 * items * ITEM_S, held, held)


def _transfers(trial: Trial, label: str, rates: Rates) -> Cost:
    """Estimate `sequential`, `random` and `strided`, which lay out what they read or overwrite."""
    files = int(trial.get("files") or 0) * int(trial.get("workers") or 1) * ranks_of(trial) or 1
    size, storage = float(trial["size"]) * files, _storage(trial, label, rates)
    reads = trial.get("operation") == "read" or trial.get("reads") is not None
    random = trial["workload"] == "random"
    # Files that are kept are laid out once, not for each trial.
    laid_out = (reads or random) and not trial.get("keep")
    written = size * (laid_out + (not reads))
    if trial.get("duration") is not None:
        body = float(trial["duration"])
    elif trial.get("sync") == "each":
        body = size / int(trial.get("transfer_size", 1 << 20)) * SYNC_S
    elif random:
        body = int(trial.get("operations") or size / 4096) * RANDOM_IO_S
    else:
        body = size / (storage.restore if reads else storage.save)
    prepare = size / storage.save if laid_out else 0.0
    return Cost(rates.overhead_s + prepare + body, written, size, size if trial.get("keep") else 0)


def _storage(trial: Trial, label: str, rates: Rates) -> Storage:
    memory = Storage(MEMORY_BYTES_PER_S, MEMORY_BYTES_PER_S)
    return rates.storages.get((label, str(trial.get("storage"))), memory)


# By workload; all others move blocks of files.
MODELS: dict[str, Callable[[Trial, str, Rates], Cost]] = {
    "checkpoint": _checkpoint,
    "codec": _codec,
    "memcpy": _memcpy,
    "metadata": _metadata,
    "copy": _copy,
    "process": _program,
    "iterate": _iterate,
    "io500": _io500,
    "shared_file": _geometry,
    "file_per_process": _geometry,
}
