"""IO500's own program: all twelve phases in one process, told by its file of settings."""

from __future__ import annotations

import os
from collections.abc import Mapping

from savemark.records import io500 as format_
from savemark.tools.commands._mpi import ENVIRONMENT, launched
from savemark.tools.commands.job import Job, Step

NAME = "io500"
VERSION: tuple[str, ...] = ()  # stands in its results
TARGETS = ("directory",)
CONFIG = "io500.ini"
RESULTS = "io500"
# `;` would begin a comment in its file of settings.
DROP = "sync && echo 3 > /proc/sys/vm/drop_caches"


def steps(job: Job) -> list[Step]:
    """Return the one process that runs everything."""
    job.workload("io500")
    if job.trial["storage"] != "posix":
        job.refuse("storage", "it reads and writes with pread and pwrite", "use --storage posix")
    job.only("direct", value=False, why="47008 bytes are no multiple of what direct I/O needs")
    job.only("verify", value=True, why="it always compares what it reads")
    if job.trial["cache"] != job.trial["names"]:
        hint = "use --cache warm, or --names cold, too (as root)"
        job.refuse("cache", "it drops pages, inodes and names, or nothing", hint)
    if job.take("names") == "cold" and os.geteuid() != 0:
        job.refuse("names", "only root may drop them", "run as root, or use --names warm")
    if float(job.take("phase_deadline")) % 1:
        job.refuse("phase_deadline", "it counts whole seconds", "use a whole number of seconds")
    job.own_data("random")
    workers = int(job.take("workers"))
    for name in ("cache", "direct", "seed", "transfer_size", "block_size", "segments"):
        job.take(name)  # in its file of settings
    job.take("files_per_worker")
    job.complete()
    words = ["io500", f"{job.scratch}/{CONFIG}"]
    results = {"resultdir": f"{job.scratch}/{RESULTS}", "dataPacketType": "incompressible"}
    # A folder below the trial's own: it removes its folder of data at the end.
    config = format_.ini(settings(job.trial, f"{job.place}/data", {"global": results}))
    return [
        Step(
            "io500",
            launched(workers, words),
            workers=workers,
            durable=True,
            environment=ENVIRONMENT,
            result=f"{RESULTS}/result.txt",
            inputs={CONFIG: config},
            folder=RESULTS,
            several=True,
        )
    ]


def settings(
    trial: Mapping[str, object], place: str, more: Mapping[str, Mapping[str, str]] | None = None
) -> format_.Settings:
    """Return IO500's settings for a trial of the workload `io500` that runs in `place`."""
    files = {"n": str(trial["files_per_worker"])}
    drop = {"drop-caches": "TRUE", "drop-caches-cmd": DROP} if trial["names"] == "cold" else {}
    both = {"timestamp-datadir": "FALSE", "timestamp-resultdir": "FALSE"}
    found: dict[str, dict[str, str]] = {
        "global": {"datadir": place, **both, **drop},
        "debug": {"stonewall-time": str(int(float(str(trial["phase_deadline"]))))},
        "ior-easy": {
            "transferSize": str(trial["transfer_size"]),
            "blockSize": str(trial["block_size"]),
        },
        "mdtest-easy": files,
        "ior-hard": {"segmentCount": str(trial["segments"])},
        "mdtest-hard": files,
    }
    for section, own in (more or {}).items():
        found[section] = {**found.get(section, {}), **own}
    return format_.settings(found)
