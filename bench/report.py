"""What a report of many trials costs: makes a run folder, builds its report, prints the cost.

    python bench/report.py [--cells 2000] [--repeats 50] [FOLDER]

The trials are made up (a grid of storages, GPU sets, sizes and workers); the lines have the fields
and the length of the engine's own. Limits, for 100,000 trials: 30 s and 2 GiB.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LIMIT_S, LIMIT_BYTES = 30.0, 2 * 2**30
STORAGES = {"ddn": 11.5e9, "nvme": 13.0e9, "sata": 9.5e9, "cloud": 2.5e9}
SIZE = 2**30
Json = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, help="where; a temporary one when left out")
    parser.add_argument("--cells", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=50)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = wanted.folder or Path(place) / "run"
        trials = make(folder, wanted.cells, wanted.repeats)
        lines = (folder / "records.jsonl").stat().st_size
        print(f"{trials} trials of {wanted.cells} settings, {lines / trials:.0f} bytes each")
        seconds, cpu_s, peak = build(folder)
        page = (folder / "report.html").stat().st_size
        print(f"report    {seconds:.1f} s (CPU {cpu_s:.1f} s), peak {peak / 2**30:.2f} GiB")
        print(f"page      {page / 1e6:.1f} MB")
        fits = seconds <= LIMIT_S and peak <= LIMIT_BYTES
        print("within the limits" if fits else f"above the limits of {LIMIT_S:.0f} s and 2 GiB")


def build(folder: Path) -> tuple[float, float, int]:
    """Build the report in a process of its own; return wall seconds, CPU seconds, peak bytes."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "savemark", "report", str(folder)], stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"savemark report ended with {os.waitstatus_to_exitcode(status)}")
    cpu_s = used.ru_utime + used.ru_stime
    return time.perf_counter() - began, cpu_s, used.ru_maxrss * 1024


def make(folder: Path, cells: int, repeats: int) -> int:
    """Write run.json and records.jsonl; return the number of trials."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(1)
    gpus, sizes = ("0,1", "0-3", "0,1,6,7", "0-7"), (65536, 262144, 1048576, 4194304)
    workers = range(1, 1 + -(-cells // (len(STORAGES) * len(gpus) * len(sizes))))
    all_cells = list(itertools.product(STORAGES, gpus, sizes, workers))[:cells]
    plan = []
    for repeat in range(repeats):
        block = list(all_cells)
        rng.shuffle(block)
        for label, gpu, size, worker in block:
            factors = {"target": label, "gpus": gpu, "transfer_size": size, "workers": worker}
            plan.append(
                {
                    "index": len(plan),
                    "label": label,
                    "role": "trial",
                    "name": "sequential",
                    "repeat": repeat,
                    "factors": factors,
                }
            )
    levels = {"gpus": list(gpus), "transfer_size": list(sizes), "workers": list(workers)}
    (folder / "run.json").write_text(json.dumps(head(plan, levels, repeats), indent=1))
    with (folder / "records.jsonl").open("w") as file:
        file.writelines(text + "\n" for text in lines(plan, rng))
    return len(plan)


def head(plan: list[Json], levels: Json, repeats: int) -> Json:
    return {
        "schema": 1,
        "run_id": "bench-report",
        "savemark_version": "0.1.0",
        "started_at": "2026-11-20T19:40:12+01:00",
        "command": ["savemark", "run", "gpu-read-grid", *(f"{k}=/mnt/{k}" for k in STORAGES)],
        "study": {
            "name": "gpu-read-grid",
            "title": "How fast do GPUs read from these storages?",
            "repeats": repeats,
            "order": "shuffled",
            "defaults": {"payload": "random", "size": SIZE},
            "trial": {"workload": "sequential", "operation": "read"},
            "factors": levels,
        },
        "host": {"cpu": {"model": "made up", "logical": 128}, "kernel_release": "6.8.0"},
        "targets": [{"label": k, "target": f"/mnt/{k}"} for k in STORAGES],
        "order_seed": 1,
        "plan": plan,
    }


def lines(plan: list[Json], rng: random.Random) -> Iterator[str]:
    for item in plan:
        factors = item["factors"]
        top = (
            STORAGES[item["label"]]
            * {"0,1": 0.55, "0-3": 0.8, "0,1,6,7": 0.9, "0-7": 1.0}[factors["gpus"]]
        )
        transfer, workers = factors["transfer_size"], factors["workers"]
        rate = top / (1 + top * (120e-6 + transfer / 3e9) / (workers * transfer))
        rate *= 1 - abs(rng.gauss(0, 0.03))
        record = recorded(item, int(SIZE / rate * 1e9), rng)
        yield json.dumps(
            item | {"status": "ok", "record": record, "error": None}, separators=(",", ":")
        )


def recorded(item: Json, ns: int, rng: random.Random) -> Json:
    factors = item["factors"]
    count, workers = SIZE // factors["transfer_size"], factors["workers"]
    shape = {
        "min": 0.5,
        "mean": 1.0,
        "p50": 0.95,
        "p90": 1.4,
        "p99": 2.2,
        "p99_9": 3,
        "p99_99": 3.5,
        "max": 4,
    }
    first = int(ns * (1 - 0.05 * rng.random()))
    trial = {
        "target": f"/mnt/{item['label']}/savemark-20261120-194012-abcdef",
        "payload": "random",
        "seed": 0,
        "storage": "gds",
        "direct": True,
        "workload": "sequential",
        "operation": "read",
        "size": SIZE,
        "files": None,
        "queue_depth": 8,
        "batch": None,
        "sync": "end",
        "memory": None,
        "checksum": False,
        "duration": None,
        **{k: v for k, v in factors.items() if k != "target"},
    }
    phase = {
        "name": "read",
        "elapsed_ns": ns,
        "first_done_ns": first,
        "last_done_ns": ns,
        "first_done_bytes": int(SIZE * first / ns * 0.999),
        "operations": count,
        "user_bytes": SIZE,
        "stored_bytes": SIZE,
        "cpu_user_ns": ns // 50,
        "cpu_system_ns": count * 9000,
        "stages": [],
        "thread_time": {"codec_ns": 0, "digest_ns": 0, "wait_ns": ns * workers, "sync_ns": 0},
        "latency": {
            "count": count,
            **{f"{k}_ns": int(ns * workers / count * v) for k, v in shape.items()},
        },
        "sync_latency": None,
        "timeline": {"interval_ns": 100_000_000, "bytes": [SIZE // 4] * 4},
        "device": {
            "name": "nvme0n1",
            "reads": count,
            "read_bytes": SIZE,
            "writes": 0,
            "written_bytes": 0,
            "flushes": 0,
        },
        "machine": {
            "elapsed_ns": ns + 10**6,
            "cpus": 128,
            "busy_ns": ns * 9,
            "own_ns": ns * 8,
            "steal_ns": 0,
            "throttled_ns": 0,
            "thermal_throttles": None,
        },
        "cache": {
            "state": "cold",
            "resident_pages": 0,
            "total_pages": 262144,
            "method": "cachestat",
        },
        "extents": {"bytes": SIZE, "hole_bytes": 0, "unwritten_bytes": 0, "method": "fiemap"},
        "payload": None,
        "durable": False,
        "verified": None,
        "notes": [],
        "workers": [
            {"user_bytes": SIZE // 8, "operations": count // 8, "done_ns": ns, "cpu_ns": ns // 9}
        ]
        * 8,
    }
    return {
        "schema": 1,
        "trial": trial,
        "started_unix_ns": 1_795_200_000_000_000_000 + item["index"] * 10**9,
        "elapsed_ns": ns + 10**7,
        "path": {
            "storage": "gds",
            "direct": True,
            "fixed_buffers": True,
            "registered_files": True,
            "alignment_bytes": 512,
            "filesystem": "lustre",
            "notes": [],
        },
        "buffer_bytes": 16 << 20,
        "conditions": {
            "clock_tick_ns": 20,
            "memory_bytes": 25276514304,
            "interposed": [],
            "traced": False,
            "limits": dict.fromkeys(("read_bytes_per_s", "write_bytes_per_s", "cpus"), None),
            "mount": {
                "filesystem": "lustre",
                "source": "10.0.0.1@o2ib:/ddn",
                "options": "rw,flock",
                "class": "network",
            },
            "write_cache": "write back",
        },
        "phases": [phase],
    }


if __name__ == "__main__":
    main()
