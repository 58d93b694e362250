"""A made-up run folder of the GPU read grid: 3 storages × 4 GPU sets × 4 sizes × 7 workers × 10."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

STORAGES = {"gdsddn": 11.5e9, "gdsnvme": 13.0e9, "nvme": 9.5e9}
GPUS = ("0,1", "0,1,2,3", "0,1,6,7", "0-7")
SIZES = (65536, 262144, 1048576, 4194304)
WORKERS = (1, 4, 16, 32, 64, 96, 128)
SIZE = 2**30


def make_grid(
    folder: Path, repeats: int = 10, seed: int = 3, workers: tuple[int, ...] = WORKERS
) -> Path:
    """Write run.json and records.jsonl of 336 settings or fewer, and return the folder."""
    rng = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    plan: list[dict[str, Any]] = []
    for repeat in range(repeats):
        cells = list(itertools.product(STORAGES, GPUS, SIZES, workers))
        rng.shuffle(cells)
        for storage, gpus, size, each in cells:
            factors = {"target": storage, "gpus": gpus, "transfer_size": size, "workers": each}
            plan.append(
                _item(len(plan), "trial", "sequential", storage, repeat) | {"factors": factors}
            )
        for storage in STORAGES:
            plan.append(_item(len(plan), "ceiling", "read", storage, repeat) | {"factors": {}})
    (folder / "run.json").write_text(json.dumps(_head(plan, repeats)), encoding="utf-8")
    lines = (json.dumps(_line(rng, item)) + "\n" for item in plan)
    (folder / "records.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


def _item(index: int, role: str, name: str, label: str, repeat: int) -> dict[str, Any]:
    return {"index": index, "role": role, "name": name, "label": label, "repeat": repeat}


def _head(plan: list[dict[str, Any]], repeats: int) -> dict[str, Any]:
    return {
        "schema": 1,
        "run_id": "grid-0001",
        "savemark_version": "0.1.0",
        "started_at": "2026-11-20T19:40:12+01:00",
        "command": ["savemark", "run", "gpu-read-grid", *[f"{k}=/mnt/{k}" for k in STORAGES]],
        "study": {
            "name": "gpu-read-grid",
            "title": "How fast do GPUs read from these storages?",
            "repeats": repeats,
            "order": "shuffled",
            "defaults": {"payload": "random", "size": SIZE},
            "trial": {"workload": "sequential", "operation": "read"},
            "checks": {"HC-13": {"block_below": 0}},
            "factors": {"gpus": list(GPUS), "transfer_size": list(SIZES), "workers": list(WORKERS)},
        },
        "host": {"cpu": {"model": "AMD EPYC 7742", "logical": 128}, "kernel_release": "5.4.0"},
        "targets": [{"label": k, "target": f"/mnt/{k}"} for k in STORAGES],
        "order_seed": 11,
        "plan": plan,
    }


def _line(rng: random.Random, item: dict[str, Any]) -> dict[str, Any]:
    top, factors = STORAGES[item["label"]], item["factors"]
    if item["role"] == "ceiling":
        rate, workers, transfer = top * rng.uniform(0.995, 1.0), 8, 4194304
    else:
        workers, transfer = factors["workers"], factors["transfer_size"]
        gpus = {"0,1": 0.55, "0,1,2,3": 0.8, "0,1,6,7": 0.9, "0-7": 1.0}[factors["gpus"]]
        latency = 120e-6 + transfer / 3e9
        rate = 0.97 * top * gpus / (1 + top * gpus * latency / (workers * transfer))
        rate *= 1 - abs(rng.gauss(0, 0.03))
    ns = int(SIZE / rate * 1e9)
    phase = {
        "name": "read",
        "elapsed_ns": ns,
        "first_done_ns": int(ns * (1 - 0.004 * workers**0.7 * rng.uniform(0.7, 1.3))),
        "last_done_ns": ns,
        "operations": SIZE // transfer,
        "user_bytes": SIZE,
        "stored_bytes": SIZE,
        "cpu_user_ns": int(ns * workers * 0.02),
        "cpu_system_ns": int(SIZE / transfer * 9000),
        "stages": [{"name": "transfer", "elapsed_ns": ns}],
        "thread_time": {"codec_ns": 0, "digest_ns": 0, "wait_ns": ns * workers},
        "latency": {
            "count": SIZE // transfer,
            **{f"{k}_ns": int(ns * workers / (SIZE // transfer) * v) for k, v in _SHAPE.items()},
        },
        "sync_latency": None,
        "timeline": {"interval_ns": 100_000_000, "bytes": [SIZE]},
        "device": None,
        "cache": {"state": "cold", "resident_pages": 0, "total_pages": 262144}
        | {"method": "cachestat"},
        "durable": False,
        "verified": None,
        "workers": [],
    }
    phase["first_done_bytes"] = int(SIZE * phase["first_done_ns"] / ns * 0.999)
    record = {
        "schema": 1,
        "trial": {"workload": "sequential", "cache": "cold", "size": SIZE},
        "started_unix_ns": 1_795_200_000_000_000_000 + item["index"] * 200_000_000,
        "elapsed_ns": ns + 50_000_000,
        "path": {"storage": "gds", "direct": True, "filesystem": "lustre", "notes": []},
        "buffer_bytes": workers * transfer,
        "phases": [phase],
    }
    return item | {"status": "ok", "record": record, "error": None}


_SHAPE = {"min": 0.5, "mean": 1.0, "p50": 0.95, "p90": 1.4, "p99": 2.2, "p99_9": 3, "max": 4}
