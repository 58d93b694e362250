"""What the clients of buckets share: what they move, and how they reach the server.

A write copies a folder of files in memory; a restore copies into such a folder. What `sequential`
reads goes nowhere, as the engine's does, where the tool can do that.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from savemark.tools.job import FILE, Job, Step

MIB = 1 << 20
PHASES = {
    "checkpoint": {"write": "save", "read": "restore"},
    "copy": {"write": "upload", "read": "download"},
}


def endpoint() -> str | None:
    """Return the server that the environment names, as the engine reads it.

    Everybody sees command lines: credentials in the URL are refused (EngineError, kind usage).
    """
    import savemark._engine as engine

    return engine.endpoint("s3")


def ways(job: Job) -> list[str]:
    """Return the directions of the trial in order, and take what all clients do alike."""
    for name in ("payload", "seed", "state", "size"):
        job.take(name)  # the data is ours, in files in memory
    workload = job.workload("sequential", "checkpoint", "copy")
    if workload == "copy":
        for name in ("disk", "items", "file_size"):
            job.take(name)
        job.only("sync", "none", "it never syncs what it downloads")
        return ["write", "read"]
    if workload == "sequential":
        job.only("duration", None, "it ends when it has moved everything")
        job.only("checksum", value=False, why="what it reads is looked at by nobody")
        job.take("sync")  # an object is there, whole and durable, when the client has ended
        return [str(job.take("operation"))]
    job.only("codec", "none", "it has none")
    job.only("in_place", value=False, why="it restores into files in memory")
    job.take("cache")  # there is no page cache on this side
    return ["write", "read"]


def objects(job: Job, way: str) -> int:
    """Return how many objects are written or read, as the engine does."""
    if job.trial["workload"] == "checkpoint":
        return max(int(job.take("streams")), 1)
    if job.trial["workload"] == "copy":
        return int(job.trial["items"])
    # Writers have an object each; readers share one.
    return int(job.take("workers")) if way == "write" else 1


def at_a_time(job: Job, way: str) -> int:
    """Return how many objects are under way at one time."""
    if job.trial["workload"] == "copy":
        return min(int(job.take("workers")), objects(job, way))
    return objects(job, way)


def in_flight(job: Job, way: str) -> int:
    """Return the requests in flight of all objects together, as the engine has them."""
    if way == "write":
        for name in ("queue_depth", "transfer_size", "chunk_size"):
            job.take(name)  # of writing that is the matter of part_size and concurrency
        return int(job.take("concurrency")) * at_a_time(job, way)
    for name in ("part_size", "concurrency"):
        job.take(name)  # of writing alone
    if job.trial["workload"] == "checkpoint":
        return int(job.take("queue_depth")) * objects(job, way)
    if job.trial["workload"] == "copy":
        return int(job.take("workers"))
    return int(job.take("queue_depth")) * int(job.take("workers"))


def request_bytes(job: Job, way: str) -> int:
    """Return the bytes of one request."""
    if way == "write":
        return int(job.take("part_size"))
    of = "chunk_size" if job.trial["workload"] == "checkpoint" else "transfer_size"
    return int(job.take(of))


def names(count: int) -> list[str]:
    """Return the names of the files or objects: one alone has no number."""
    return [FILE] if count == 1 else [f"savemark-data-{number:04}.bin" for number in range(count)]


def total(trial: Mapping[str, Any]) -> int:
    """Return the bytes that a trial moves in one direction."""
    if trial["workload"] == "copy":
        return int(trial["items"]) * int(trial["file_size"])
    return int(trial["size"])


def sources(job: Job) -> list[str]:
    """Return the files to copy from."""
    return [f"{job.outgoing}/{name}" for name in names(objects(job, "write"))]


def discards(job: Job) -> bool:
    """Whether what is read goes nowhere: a restore has to end in memory."""
    return bool(job.trial["workload"] == "sequential")


def step(job: Job, way: str, argv: list[str], **more: Any) -> Step:
    """Return the phase that moves everything in one direction."""
    count, size = objects(job, way), total(job.trial)
    phase = PHASES.get(str(job.trial["workload"]), {}).get(way, way)
    files = sources(job) if way == "write" else []
    return Step(
        phase,
        tuple(argv),
        user_bytes=size,
        operations=max(-(-size // request_bytes(job, way)), count),
        workers=in_flight(job, way),
        durable=way == "write",
        sources=[Path(file).name for file in files],
        reads=tuple(files) if job.trial["workload"] == "copy" else (),
        restores=way == "read" and not discards(job),
        **more,
    )
