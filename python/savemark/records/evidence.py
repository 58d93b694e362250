"""The columns that only the checks look at: where a row came from and what stood around it.

A record of this engine has `conditions` and, in each phase, `machine`, `extents` and `payload`; one
that was imported has `source`, and what its tool said of each phase. Whatever is unknown is null:
a check answers *unverified*, never *ok*.
"""

from __future__ import annotations

from typing import Any

import polars as pl
from msgspec.structs import replace

from savemark.gpus import gpu_count, is_on_gpus
from savemark.records import io500
from savemark.records.columns import Columns, Row
from savemark.records.fields import Options
from savemark.records.phase import CuFile, Extents, Machine, Payload, Phase, Slip, ThreadTime
from savemark.records.record import Conditions, Limits, Mount, Record, Source

SOURCE = {
    "origin": pl.String,
    "tool": pl.String,
    "tool_version": pl.String,
    "command": pl.String,
    "source_sha256": pl.String,
    "source_file": pl.String,
    "timer_resolution_ns": pl.Int64,
    "client_memory_bytes": pl.Int64,
    "tool_valid": pl.Boolean,
    "tool_message": pl.String,
}
TRIAL = {
    "workload": pl.String,
    "payload_kind": pl.String,
    "state_given": pl.Boolean,
    "kept": pl.Boolean,  # the file that is read stays for the next trial
    "transfer_asked": pl.String,  # between files and GPUs
    "gpu_count": pl.Int64,  # GPUs that bytes were moved to or from
    "pages": pl.String,  # of the memory that bytes move through: asked to be huge or small, or not
}
LIMITS = Columns.of(Limits, prefix="limit_")
CONDITIONS = {
    "interposed": pl.String,  # "fsync by /tmp/x.so, …"; empty where the C library provides all
    "traced": pl.Boolean,
    "mount_options": pl.String,
    "filesystem_class": pl.String,
    "write_cache": pl.String,
    **LIMITS.kinds,
}
CLAIM = Columns.of(
    Phase,
    *("contract", "atomic", "time_base", "thread_io_ns", "worker_count", "transfer_bytes"),
    *("dataset_bytes", "reported_bytes_per_s", "reported_ops_per_s", "outer_elapsed_ns"),
    *("statistic", "label_conflict", "arithmetic", "shifted", "gds_bytes", "stall_ns"),
    *("past_mount", "start_skew_ns", "clock_error_ns"),
)
# Of live trials on several ranks.
RANKS = {"rank_count": pl.Int64, "node_count": pl.Int64}
# By the part of a phase that they are of.
MEASURED = {
    "slip": Columns.of(Slip, "due", "started", "late", prefix="slip_"),
    "machine": Columns.of(Machine, prefix="machine_"),
    "extents": Columns.of(Extents, prefix="extents_"),
    "payload": Columns.of(
        Payload, "sampled_bytes", "zero_share", "repeated_share", "entropy_bits", prefix="payload_"
    ),
    "cufile": Columns.of(CuFile, prefix="cufile_"),
}
COLUMNS: dict[str, Any] = {**SOURCE, **TRIAL, **CONDITIONS, **CLAIM.kinds, **RANKS}
COLUMNS |= {name: kind for part in MEASURED.values() for name, kind in part.kinds.items()}

# Pages of memory, as the column `pages` has them.
ASKED_HUGE, NOT_ASKED = "huge", "not asked"

# The phases that move bytes to the storage and back; ours, and those of imported tools.
WRITES = (
    *("save", "write", "rewrite", "random_write", "iterate", "upload"),
    *("ior-easy-write", "ior-hard-write"),
)
# The solver's policies: what a save promises, and whether a crash leaves a whole state. One that is
# not durable is `none` by its record.
POLICIES = {
    **dict.fromkeys(("fsync_each", "dsync", "linked"), ("each", False)),
    **dict.fromkeys(("fsync_leader", "fdatasync_leader"), ("end", False)),
    **dict.fromkeys(("none", "direct", "sync_file_range"), ("none", False)),
    "group": ("shared", False),
    "two_generations": ("generations", True),
    "rename": ("rename", True),
    "double_buffer": ("behind", True),
}
READS = (
    *("restore", "read", "reread", "random_read", "download"),
    *("ior-easy-read", "ior-hard-read"),
)


def of_record(record: Record, version: str) -> Row:
    """The columns that all phases of a trial share."""
    source = source_of(record)
    trial, met = record.trial, record.conditions
    origin = source or _runner(record, version)
    mount = met.mount or Mount()
    return {
        "origin": origin.origin,
        "tool": origin.tool,
        "tool_version": origin.tool_version,
        "command": origin.command,
        "source_sha256": origin.sha256,
        "source_file": origin.file,
        "timer_resolution_ns": source.timer_resolution_ns if source else met.clock_tick_ns,
        "client_memory_bytes": source.client_memory_bytes if source else met.memory_bytes,
        "tool_valid": origin.valid,
        "tool_message": origin.message,
        "workload": trial.get("workload"),
        "payload_kind": trial.get("payload"),
        "state_given": _own_state(trial["state"]) if "state" in trial else None,
        "kept": trial.get("keep"),
        "transfer_asked": trial.get("transfer") if trial.get("storage") == "gds" else None,
        "gpu_count": _gpus(trial),
        "pages": _pages(record, trial),
        "interposed": _interposed(met),
        "traced": met.traced,
        "mount_options": mount.options,
        "filesystem_class": mount.kind,
        "write_cache": met.write_cache,
        **LIMITS.row(met.limits),
    }


def _gpus(trial: Options) -> int | None:
    """Count the GPUs that a trial moves bytes to or from; None where it has none."""
    if trial.get("storage") == "gds" and trial.get("transfer") != "cpu":
        return gpu_count(str(trial.get("gpus") or "0"))
    if is_on_gpus(state := trial.get("state")):
        return gpu_count(str(state).partition(":")[2] or "0")
    return None


def _pages(record: Record, trial: Options) -> str | None:
    """Tell which pages were asked for; tools ask for none, and trials without that option are huge.

    Imported files do not tell.
    """
    if source_of(record):
        return None
    if record.tool:
        return NOT_ASKED
    return ASKED_HUGE if trial.get("huge_pages", True) else "small"


def _own_state(state: object) -> bool:
    """Tell whether the state was the user's own files."""
    return bool(state) and not is_on_gpus(state)


def _runner(record: Record, version: str) -> Source:
    """Who moved the bytes of a live trial: this program, or a tool that it ran."""
    tool = record.tool
    if tool is None:
        return Source(origin="live", tool="savemark", tool_version=version)
    commands = "; ".join(" ".join(run.command) for run in tool.runs)
    return Source(origin="live", tool=tool.name, tool_version=tool.version, command=commands)


def source_of(record: Record) -> Source | None:
    """Where an imported record is from; None of a live one."""
    if record.origin != "imported":
        return record.source
    own, tool = record.source or Source(), record.tool
    stated = {
        "sha256": record.source_sha256,
        "tool": tool and tool.name,
        "tool_version": tool and tool.version,
        "command": tool and tool.command,
        "timer_resolution_ns": record.timer_resolution_ns,
    }
    missing = {name: value for name, value in stated.items() if getattr(own, name) is None}
    return replace(own, origin="imported", **missing)


def of_phase(phase: Phase, record: Record) -> Row:
    """The columns of one phase."""
    row = CLAIM.row(phase)
    if source_of(record) is None:
        row |= _live(phase, record.trial)
    for name, columns in MEASURED.items():
        if (part := getattr(phase, name)) is not None:
            row |= columns.row(part)
    return row


def _live(phase: Phase, trial: Options) -> Row:
    """The columns of a phase that this program measured, or a tool that it ran."""
    row: Row = {
        "time_base": "wall",
        "rank_count": phase.ranks.of if phase.ranks else None,
        "node_count": phase.nodes.of if phase.nodes else None,
        "worker_count": len(phase.workers) or phase.worker_count,
        "transfer_bytes": trial.get("transfer_size", trial.get("chunk_size")),
        "dataset_bytes": trial.get("size"),
        **_promise(phase, trial),
    }
    if trial.get("workload") == "io500":
        row |= _of_io500(phase, trial, row)
    if trial.get("workload") == "iterate":
        spent = phase.thread_time or ThreadTime()
        row["thread_io_ns"] = (spent.write_ns or 0) + (spent.sync_ns or 0)
    return row


def _of_io500(phase: Phase, trial: Options, row: Row) -> Row:
    """What phases of one trial do not share: their I/Os, and what IO500 says against them."""
    reasons = "; ".join(io500.against(phase, trial))
    own: Row = {"tool_valid": False, "tool_message": f"{phase.name}: {reasons}"} if reasons else {}
    if not phase.name.startswith("ior"):
        return own | {"transfer_bytes": None, "dataset_bytes": None}
    hard = phase.name.startswith("ior-hard")
    transfer = io500.HARD_TRANSFER if hard else row["transfer_bytes"]
    return own | {"transfer_bytes": transfer, "dataset_bytes": phase.user_bytes}


def _promise(phase: Phase, trial: Options) -> Row:
    """What was durable at the end of a phase of ours, and whether a crash could have torn it."""
    if phase.name not in WRITES:
        return {}
    if trial.get("workload") == "iterate":
        contract, atomic = POLICIES[str(trial.get("policy"))]
        return {"contract": contract if phase.durable else "none", "atomic": atomic}
    # Of a program, CRIU's own files are no checkpoint: nothing says that they are complete.
    if trial.get("workload") == "checkpoint" or trial.get("mode") in ("stream", "tmpfs"):
        return {"contract": "rename" if phase.durable else "none", "atomic": True}
    # IO500 has no choice: one flush at the end of each write.
    sync = "end" if trial.get("workload") == "io500" else trial.get("sync")
    return {"contract": sync if phase.durable else "none", "atomic": False}


def _interposed(met: Conditions) -> str | None:
    if met.interposed is None:
        return None
    return ", ".join(f"{each.function} by {each.library}" for each in met.interposed)
