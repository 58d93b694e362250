"""The columns that only the checks look at: where a row came from and what stood around it.

A record made by this engine has `conditions` and, in each phase, `machine`, `extents` and
`payload`. A record made by an importer has `source` instead, and may add to each phase what the
tool said. Whatever is absent is null: a check answers *unverified*, never *ok*.

    record["source"] = {
        "origin": "imported",           # live rows have no source and get origin "live"
        "tool": "iozone", "tool_version": "3.506", "command": "iozone -t1 …",
        "sha256": "…", "file": "…",     # of the file that was read
        "timer_resolution_ns": 10_000_000,
        "client_memory_bytes": …, "valid": True | False | None, "message": "[INVALID] …",
        "place": "/lustre/x",           # the directory that it measured
    }
    phase |= {
        # What was promised when the clock stopped: none (buffered), each (sync per write), end (one
        # sync at the end, inside the time), group, rename (sync, rename, sync of the directory),
        # shared (one sync for several threads), generations (two files in turn, one sync each),
        # behind (rename, one save later),
        # unknown (the tool does not say).
        "contract": "none",
        "atomic": False,                # whether a crash in mid-write leaves the old state whole
        # What `elapsed_ns` is made of: "wall", or "threads" where it is a sum over threads. A time
        # that the tool summed over threads beside its wall time goes into thread_io_ns.
        "time_base": "wall", "thread_io_ns": …, "worker_count": …,
        "transfer_bytes": …, "dataset_bytes": …,
        # As printed, in base units: what the arithmetic is checked against.
        "reported_bytes_per_s": …, "reported_ops_per_s": …,
        # The same phase by a meter that includes write-back: iozone's parent, say.
        "outer_elapsed_ns": …,
        # What the number is of several runs: "min", "max", "mean", "median"; absent for one run.
        "statistic": "max",
        # Where name and command disagree: "the name says s=100, the command -s 1".
        "label_conflict": …,
        # What of the file does not add up: "the printed score is 5, its phases come to 4".
        "arithmetic": …,
        # Whether each byte was read by another client than the one that wrote it (IOR -C).
        "shifted": …,
    }

The same facts may also stand flat in the record, as `origin`, `source_sha256`,
`timer_resolution_ns` and `tool: {name, version, command}`.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from savemark.gpus import gpu_count, is_on_gpus
from savemark.records import io500

Json = dict[str, Any]

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
CONDITIONS = {
    "interposed": pl.String,  # "fsync by /tmp/x.so, …"; empty where the C library provides all
    "traced": pl.Boolean,
    "mount_options": pl.String,
    "filesystem_class": pl.String,
    "write_cache": pl.String,
    "limit_read_bytes_per_s": pl.Int64,
    "limit_write_bytes_per_s": pl.Int64,
    "limit_read_ops_per_s": pl.Int64,
    "limit_write_ops_per_s": pl.Int64,
    "limit_cpus": pl.Float64,
}
CLAIM = {
    "contract": pl.String,
    "atomic": pl.Boolean,
    "time_base": pl.String,
    "thread_io_ns": pl.Int64,
    "worker_count": pl.Int64,
    "transfer_bytes": pl.Int64,
    "dataset_bytes": pl.Int64,
    "reported_bytes_per_s": pl.Float64,
    "reported_ops_per_s": pl.Float64,
    "outer_elapsed_ns": pl.Int64,
    "statistic": pl.String,
    "label_conflict": pl.String,
    "arithmetic": pl.String,
    "shifted": pl.Boolean,
    "gds_bytes": pl.Int64,
    "stall_ns": pl.Int64,  # of a save out of GPUs: until everything was copied
    # Of a mounted bucket: whether a read found it mounted anew, its cache empty; whether what was
    # written was looked for in the bucket itself.
    "past_mount": pl.Boolean,
    # Of several ranks: by how much later than the first the last one started, and how true that is.
    "start_skew_ns": pl.Int64,
    "clock_error_ns": pl.Int64,
}
# Of live trials on several ranks.
RANKS = {"rank_count": pl.Int64, "node_count": pl.Int64}
MEASURED = {
    # Of an open loop: I/Os due, started, and started late.
    "slip_due": pl.Int64,
    "slip_started": pl.Int64,
    "slip_late": pl.Int64,
    "machine_elapsed_ns": pl.Int64,
    "machine_cpus": pl.Int64,
    "machine_busy_ns": pl.Int64,
    "machine_own_ns": pl.Int64,
    "machine_steal_ns": pl.Int64,
    "machine_throttled_ns": pl.Int64,
    "machine_thermal_throttles": pl.Int64,
    "extents_bytes": pl.Int64,
    "extents_hole_bytes": pl.Int64,
    "extents_unwritten_bytes": pl.Int64,
    "extents_method": pl.String,
    "payload_sampled_bytes": pl.Int64,
    "payload_zero_share": pl.Float64,
    "payload_repeated_share": pl.Float64,
    "payload_entropy_bits": pl.Float64,  # per byte, 0 to 8
    # cuFile's own counts: bytes, and transfers by their way.
    "cufile_read_bytes": pl.Int64,
    "cufile_written_bytes": pl.Int64,
    "cufile_nvidia_fs": pl.Int64,
    "cufile_peer_to_peer": pl.Int64,
    "cufile_posix": pl.Int64,
}
# Of each part of a phase that is an object: the columns, and the fields that they hold.
PARTS = {
    part: [
        (name, name.removeprefix(f"{part}_")) for name in MEASURED if name.startswith(f"{part}_")
    ]
    for part in ("slip", "machine", "extents", "payload", "cufile")
}
COLUMNS: dict[str, Any] = {**SOURCE, **TRIAL, **CONDITIONS, **CLAIM, **RANKS, **MEASURED}

LIMITS = [(n, n.removeprefix("limit_")) for n in CONDITIONS if n.startswith("limit_")]

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


def of_record(record: Json, version: str) -> Json:
    """The columns that all phases of a trial share."""
    source = _source(record)
    trial, met = record.get("trial") or {}, record.get("conditions") or {}
    tool = source or _runner(record, version)
    row: Json = {name: tool.get(name) for name in ("origin", "tool", "tool_version", "command")}
    row |= {
        "source_sha256": source.get("sha256"),
        "source_file": source.get("file"),
        "timer_resolution_ns": source.get("timer_resolution_ns", met.get("clock_tick_ns")),
        "client_memory_bytes": source.get("client_memory_bytes", met.get("memory_bytes")),
        "tool_valid": source.get("valid"),
        "tool_message": source.get("message"),
        "workload": trial.get("workload"),
        "payload_kind": trial.get("payload"),
        "state_given": _own_state(trial.get("state")) if "state" in trial else None,
        "kept": trial.get("keep"),
        "transfer_asked": trial.get("transfer") if trial.get("storage") == "gds" else None,
        "gpu_count": _gpus(trial),
        "pages": _pages(record, trial),
        "interposed": _interposed(met),
        "traced": met.get("traced"),
    }
    mount, limits = met.get("mount") or {}, met.get("limits") or {}
    row |= {"mount_options": mount.get("options"), "filesystem_class": mount.get("class")}
    row["write_cache"] = met.get("write_cache")
    return row | {column: limits.get(name) for column, name in LIMITS}


def _gpus(trial: Json) -> int | None:
    """Count the GPUs that a trial moves bytes to or from; None where it has none."""
    if trial.get("storage") == "gds" and trial.get("transfer") != "cpu":
        return gpu_count(str(trial.get("gpus") or "0"))
    if is_on_gpus(state := trial.get("state")):
        return gpu_count(str(state).partition(":")[2] or "0")
    return None


def _pages(record: Json, trial: Json) -> str | None:
    """Tell which pages were asked for; tools ask for none, and trials without that option are huge.

    Imported files do not tell.
    """
    if _source(record):
        return None
    if record.get("tool"):
        return NOT_ASKED
    return ASKED_HUGE if trial.get("huge_pages", True) else "small"


def _own_state(state: object) -> bool:
    """Tell whether the state was the user's own files."""
    return bool(state) and not is_on_gpus(state)


def _runner(record: Json, version: str) -> Json:
    """Who moved the bytes of a live trial: this program, or a tool that it ran."""
    tool = record.get("tool")
    if not tool:
        return {"origin": "live", "tool": "savemark", "tool_version": version}
    commands = [" ".join(run["command"]) for run in tool.get("runs") or []]
    named = {"tool": tool["name"], "tool_version": tool["version"]}
    return {"origin": "live", **named, "command": "; ".join(commands)}


def _source(record: Json) -> Json:
    """Where an imported record is from; empty for a live one."""
    if record.get("origin") != "imported":
        return dict(record.get("source") or {})
    tool = record.get("tool") or {}
    flat = {"origin": "imported", "sha256": record.get("source_sha256")}
    flat |= {"tool": tool.get("name"), "tool_version": tool.get("version")}
    flat |= {"command": tool.get("command")}
    flat |= {"timer_resolution_ns": record.get("timer_resolution_ns")}
    return flat | (record.get("source") or {})


def of_phase(phase: Json, record: Json) -> Json:
    """The columns of one phase."""
    trial, imported = record.get("trial") or {}, bool(_source(record))
    row = {name: phase.get(name) for name in CLAIM}
    if not imported:
        workers = phase.get("workers")
        row["time_base"] = "wall"
        row["rank_count"] = (phase.get("ranks") or {}).get("of")
        row["node_count"] = (phase.get("nodes") or {}).get("of")
        row["worker_count"] = len(workers) if workers else phase.get("worker_count")
        row["transfer_bytes"] = trial.get("transfer_size", trial.get("chunk_size"))
        row["dataset_bytes"] = trial.get("size")
        row |= _promise(phase, trial)
        if trial.get("workload") == "io500":
            row |= _of_io500(phase, trial, row)
        if trial.get("workload") == "iterate":
            spent = phase.get("thread_time") or {}
            row["thread_io_ns"] = spent.get("write_ns", 0) + spent.get("sync_ns", 0)
    for part, names in PARTS.items():
        found = phase.get(part) or {}
        row |= {column: found.get(name) for column, name in names}
    return row


def _of_io500(phase: Json, trial: Json, row: Json) -> Json:
    """What phases of one trial do not share: their I/Os, and what IO500 says against them."""
    name = str(phase.get("name"))
    said = "; ".join(io500.against(phase, trial))
    own: Json = {"tool_valid": False, "tool_message": f"{name}: {said}"} if said else {}
    if not name.startswith("ior"):
        return own | {"transfer_bytes": None, "dataset_bytes": None}
    transfer = io500.HARD_TRANSFER if name.startswith("ior-hard") else row["transfer_bytes"]
    return own | {"transfer_bytes": transfer, "dataset_bytes": phase.get("user_bytes")}


def _promise(phase: Json, trial: Json) -> Json:
    """What was durable at the end of a phase of ours, and whether a crash could have torn it."""
    if phase.get("name") not in WRITES:
        return {}
    if trial.get("workload") == "iterate":
        contract, atomic = POLICIES[str(trial.get("policy"))]
        return {"contract": contract if phase.get("durable") else "none", "atomic": atomic}
    # Of a program, CRIU's own files are no checkpoint: nothing says that they are complete.
    if trial.get("workload") == "checkpoint" or trial.get("mode") in ("stream", "tmpfs"):
        return {"contract": "rename" if phase.get("durable") else "none", "atomic": True}
    # IO500 has no choice: one flush at the end of each write.
    sync = "end" if trial.get("workload") == "io500" else trial.get("sync")
    return {"contract": sync if phase.get("durable") else "none", "atomic": False}


def _interposed(met: Json) -> str | None:
    found = met.get("interposed")
    if found is None:
        return None
    return ", ".join(f"{each['function']} by {each['library']}" for each in found)
