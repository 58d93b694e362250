"""A made-up but lawful run folder: the numbers of a 2 GB/s disk and four cores, with noise."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GB = 1e9
SIZE = 2 * 2**30
DISK = {"save": 2.05 * GB, "restore": 1.83 * GB}
# Per core: encode, decode (bytes/s), user/stored.
CODECS = {
    "lz4": (0.72 * GB, 2.1 * GB, 1.01),
    "zstd": (0.46 * GB, 0.95 * GB, 1.28),
    "gzip": (0.041 * GB, 0.29 * GB, 1.25),
    "zlib": (0.043 * GB, 0.30 * GB, 1.25),
    "planes": (0.7 * GB, 1.2 * GB, 1.5),
}
# The share of the disk that so many streams reach.
STREAMS = {0: 0.62, 1: 0.48, 2: 0.93, 4: 0.97, 8: 0.965, 16: 0.955}
ALL = ("none", "tar", "lz4", "zstd", "gzip", "zlib")


@dataclass
class Made:
    """What to make; the defaults are the shipped `quick` study on a healthy machine."""

    codecs: tuple[str, ...] = ALL
    streams: tuple[int, ...] = (0, 2, 4, 8)
    repeats: int = 5
    targets: dict[str, float] = field(default_factory=lambda: {"scratch": 1.0})
    ceilings: bool = True
    cores: int = 4
    size: int = SIZE
    fail: tuple[str, int] | None = None  # (codec, streams) that always fails
    warm: bool = False
    device: bool = True
    cached: bool = False  # the device sees a tenth of the bytes
    stop_after: int | None = None
    torn: bool = False
    seed: int = 7
    study: str = "quick"


def make_run(folder: Path, made: Made | None = None) -> Path:
    """Write run.json and records.jsonl, and return the folder."""
    made = made or Made()
    rng = random.Random(made.seed)
    folder.mkdir(parents=True, exist_ok=True)
    plan = _plan(made, rng)
    (folder / "run.json").write_text(json.dumps(_head(made, plan)), encoding="utf-8")
    lines = [json.dumps(_line(made, rng, item)) + "\n" for item in plan[: made.stop_after]]
    text = "".join(lines) + ('{"index": 9999, "role": "tri' if made.torn else "")
    (folder / "records.jsonl").write_text(text, encoding="utf-8")
    return folder


def _plan(made: Made, rng: random.Random) -> list[dict[str, Any]]:
    plan: list[dict[str, Any]] = []
    tops = ["write", "read", "random_read", "fsync", "memcpy"] if made.ceilings else []
    tops += [f"codec/{name}" for name in CODECS if name in made.codecs] if made.ceilings else []
    for repeat in range(made.repeats):
        block = []
        for label in made.targets:
            for codec in made.codecs:
                for streams in made.streams:
                    factors = {"target": label} if len(made.targets) > 1 else {}
                    factors |= {"codec": codec, "streams": streams}
                    block.append(("trial", "checkpoint", label, factors))
            block += [("ceiling", name, label, {}) for name in tops]
        rng.shuffle(block)
        for role, name, label, factors in block:
            plan.append(
                {"index": len(plan), "role": role, "name": name, "label": label, "repeat": repeat}
                | {"factors": factors}
            )
    return plan


def _head(made: Made, plan: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "schema": 1,
        "run_id": "made-0001",
        "savemark_version": "0.1.0",
        "started_at": "2026-11-20T19:40:12+01:00",
        "command": ["savemark", "run", *[f"{k}=/mnt/{k}" for k in made.targets]],
        "study": {
            "name": made.study,
            "title": "How fast does this directory save and restore a checkpoint?",
            "repeats": made.repeats,
            "order": "shuffled",
            "defaults": {"storage": "uring", "payload": "bf16", "size": made.size},
            "trial": {"workload": "checkpoint"},
            "factors": {"codec": list(made.codecs), "streams": list(made.streams)},
            "checks": {"HC-13": {"block_below": 0}},
        },
        "host": {
            "cpu": {"model": "AMD EPYC 7R13", "logical": 8, "available": made.cores},
            "memory": {"total_bytes": 32 * 2**30, "transparent_hugepages": "madvise"},
            "kernel_release": "6.8.0-31-generic",
            "target": {"filesystem": "ext4", "disk": {"name": "nvme0n1", "scheduler": "none"}},
            "libraries": ["lz4_flex 0.11.3", "zstd 1.5.6"],
        },
        "targets": [{"label": k, "target": f"/mnt/{k}"} for k in made.targets],
        "order_seed": 4242,
        "plan": plan,
    }


def _line(made: Made, rng: random.Random, item: dict[str, Any]) -> dict[str, Any]:
    factors = item["factors"]
    if made.fail and (factors.get("codec"), factors.get("streams")) == made.fail:
        error = {"kind": "failed", "message": "cannot write /mnt/scratch/7.shard: No space left"}
        error["hint"] = "free some space (or quota), or use a smaller --size"
        return item | {"status": "failed", "record": None, "error": error}
    if item["role"] == "ceiling":
        phases = _ceiling(made, rng, item)
    else:
        phases = [_checkpoint(made, rng, item, name) for name in ("save", "restore")]
    trial = {"workload": item["name"], "storage": "uring", "payload": "bf16", "cache": "cold"}
    record = {
        "schema": 1,
        "trial": trial | {"size": made.size} | factors,
        "started_unix_ns": 1_795_200_000_000_000_000 + item["index"] * 2_000_000_000,
        "elapsed_ns": sum(phase["elapsed_ns"] for phase in phases) + 50_000_000,
        "path": {"storage": "uring", "direct": True, "fixed_buffers": True, "notes": []}
        | {"registered_files": True, "alignment_bytes": 4096, "filesystem": "ext4"},
        "buffer_bytes": 64 * 2**20,
        "conditions": _conditions(),
        "phases": phases,
    }
    return item | {"status": "ok", "record": record, "error": None}


def _conditions() -> dict[str, Any]:
    limits = ("read_bytes_per_s", "write_bytes_per_s", "read_ops_per_s", "write_ops_per_s", "cpus")
    return {
        "clock_tick_ns": 25,
        "memory_bytes": 32 * 2**30,
        "interposed": [],
        "traced": False,
        "limits": dict.fromkeys(limits),
        "mount": {"filesystem": "ext4", "options": "rw,relatime", "class": "disk"},
        "write_cache": "write back",
    }


def _checkpoint(made: Made, rng: random.Random, item: dict[str, Any], name: str) -> dict[str, Any]:
    codec, streams = item["factors"]["codec"], item["factors"]["streams"]
    encode, decode, ratio = CODECS.get(codec, (0.0, 0.0, 1.0))
    disk = DISK[name] * made.targets[item["label"]]
    disk *= STREAMS[streams] * ratio * (0.97 if codec == "tar" else 1)
    speed = (encode if name == "save" else decode) * min(max(streams, 1), made.cores) * 0.95
    rate = min(disk, speed) if speed else disk
    seconds = (
        made.size / rate * (1 + abs(rng.gauss(0, 0.012))) * (1.06 if rng.random() < 0.04 else 1)
    )
    seconds += 0.004
    cpu = made.size * (0.035 / GB + (1 / encode if encode and name == "save" else 0))
    cpu += made.size / decode if decode and name == "restore" else 0
    phase = _phase(rng, name, seconds, made.size, int(made.size / ratio))
    phase["cpu_user_ns"] = int(cpu * 1e9 * rng.uniform(0.98, 1.04))
    phase["thread_time"]["codec_ns"] = int((phase["cpu_user_ns"]) * 0.95) if encode else 0
    if made.warm and name == "restore":
        phase["cache"] |= {"state": "warm", "resident_pages": phase["cache"]["total_pages"]}
    if not made.device:
        phase["device"] = None
    elif made.cached:
        phase["device"]["written_bytes"] //= 10
        phase["device"]["read_bytes"] //= 10
    return phase


def _ceiling(made: Made, rng: random.Random, item: dict[str, Any]) -> list[dict[str, Any]]:
    name, noise = item["name"], 1 + abs(rng.gauss(0, 0.008))
    if name.startswith("codec/"):
        encode, decode, ratio = CODECS[name[6:]]
        size = 2**27
        parts = (("encode", encode), ("decode", decode))
        return [_phase(rng, p, size / r * noise, size, int(size / ratio)) for p, r in parts]
    scale = made.targets[item["label"]]
    if name == "memcpy":
        return [_phase(rng, "copy", 2**30 / (11.6 * GB) * noise, 2**30, 2**30)]
    if name in ("write", "read"):
        rate = DISK["save" if name == "write" else "restore"] * scale
        return [_phase(rng, name, made.size / rate * noise, made.size, made.size)]
    if name == "fsync":
        phase = _phase(rng, "write", 256 * 0.00041 * noise, 2**20, 2**20)
        phase["sync_latency"] = _latency(0.00041 * noise)
        return [phase]
    moved = int(118_000 * 0.5 / noise) * 4096
    return [_phase(rng, "read", 0.5, moved, moved) | {"operations": moved // 4096}]


def _phase(rng: random.Random, name: str, s: float, user: int, stored: int) -> dict[str, Any]:
    ns = int(s * 1e9)
    writes = name in ("save", "write")
    steps = max(1, min(200, ns // 100_000_000))
    flush = ns // 40
    stages = {
        "save": [("transfer", ns - flush - 2_000_000), ("flush", flush), ("commit", 2_000_000)],
        "restore": [
            ("open", 3_000_000),
            ("transfer", ns - 4_000_000),
            ("verify", 1_000_000),
        ],
    }.get(name, [("transfer", ns)])
    return {
        "name": name,
        "elapsed_ns": ns,
        "first_done_ns": int(ns * 0.96),
        "last_done_ns": int(ns * 0.99),
        "first_done_bytes": int(user * 0.97),
        "operations": user // 2**20,
        "user_bytes": user,
        "stored_bytes": stored,
        "cpu_user_ns": int(user / 4.0),
        "cpu_system_ns": int(user * 0.02),
        "stages": [{"name": stage, "elapsed_ns": length} for stage, length in stages],
        "thread_time": {"codec_ns": 0, "digest_ns": user // 12, "wait_ns": ns},
        "latency": _latency(0.004 * rng.uniform(0.9, 1.2)),
        "sync_latency": _latency(0.0004) if name == "save" else None,
        "timeline": {
            "interval_ns": 100_000_000,
            "bytes": [int(user / steps * rng.uniform(0.9, 1.1)) for _ in range(steps)],
        },
        "device": {
            "name": "nvme0n1",
            "reads": 0 if writes else stored // 2**20,
            "read_bytes": 0 if writes else stored + 40_960,
            "writes": stored // 2**20 if writes else 3,
            "written_bytes": stored + 81_920 if writes else 12_288,
            "flushes": 2 if writes else 0,
        },
        "cache": {"state": "cold", "resident_pages": 0, "total_pages": stored // 4096}
        | {"method": "cachestat"},
        "machine": {"elapsed_ns": ns + 1_000_000, "cpus": 8, "busy_ns": ns, "own_ns": ns * 9 // 10}
        | {"steal_ns": 0, "throttled_ns": 0, "thermal_throttles": None},
        "extents": None
        if writes
        else {"bytes": stored, "hole_bytes": 0, "unwritten_bytes": 0, "method": "fiemap"},
        "payload": {"sampled_bytes": 2**20, "zero_share": 0.0, "repeated_share": 0.0}
        | {"entropy_bits": 6.2}
        if writes
        else None,
        "durable": writes,
        "verified": "every chunk" if name == "restore" else None,
        "workers": [],
    }


def _latency(s: float) -> dict[str, int]:
    ns = int(s * 1e9)
    scale = {"min": 0.4, "mean": 1.1, "p50": 1, "p90": 1.4, "p99": 2.2, "p99_9": 4, "p99_99": 6}
    return {"count": 2048} | {f"{k}_ns": int(ns * v) for k, v in (scale | {"max": 8}).items()}
