"""rclone: `copy` between files in memory and a bucket, and between directories."""

from __future__ import annotations

from savemark.tools import _bucket
from savemark.tools.job import Job, Step

NAME = "rclone"
VERSION = ("rclone", "version")
TARGETS = ("url", "directory")


def steps(job: Job) -> list[Step]:
    """Return one command line per direction."""
    if job.in_bucket:
        job.take("timeout")
        job.take("retries")
    else:
        if job.trial["workload"] == "checkpoint":
            job.refuse("workload", "it never syncs, and a save is durable")
        if job.trial["workload"] == "copy":
            job.refuse("workload", "copy wants a bucket at the other end of this tool")
        job.only("sync", "none", "it never syncs")
        job.only("direct", value=False, why="it reads and writes through the page cache")
    made = [_step(job, way) for way in _bucket.ways(job)]
    job.complete()
    return made


def remote(place: str) -> str:
    """Return a place as rclone names it: what the environment says of the server, no secrets."""
    if "://" not in place:
        return place
    server = _bucket.endpoint()
    quoted = (server or "").replace("'", "''")  # as rclone reads its connection strings
    provider = f"provider=Other,endpoint='{quoted}'" if server else "provider=AWS"
    return f":s3,{provider},env_auth,no_check_bucket:{place.split('://', 1)[1]}"


def _step(job: Job, way: str) -> Step:
    words = ["rclone", "copy", "--ignore-times", "--transfers", str(_bucket.at_a_time(job, way))]
    words += _requests(job, way) if job.in_bucket else _alone(job)
    # What it reads goes into memory: `cat` would read with one request at a time.
    there = remote(job.place)
    words += [job.outgoing, there] if way == "write" else [there, job.incoming]
    return _bucket.step(job, way, words) if job.in_bucket else _local(job, way, words)


def _requests(job: Job, way: str) -> list[str]:
    in_flight = _bucket.in_flight(job, way) // _bucket.at_a_time(job, way) or 1
    request = _bucket.request_bytes(job, way)
    words = ["--low-level-retries", str(job.take("retries")), "--retries", "1"]
    words += ["--timeout", f"{job.take('timeout')}s"]
    if way == "write":
        words += [f"--s3-upload-concurrency={in_flight}", f"--s3-chunk-size={request}B"]
        return [*words, f"--s3-upload-cutoff={request}B"]
    # It cuts an object into as many parts as it has streams, whatever the size of a request.
    streams = in_flight if in_flight > 1 else 0
    return [*words, f"--multi-thread-streams={streams}", "--multi-thread-cutoff=1M"]


def _alone(job: Job) -> list[str]:
    job.only("workers", 1, "it copies one file with one thread")
    job.one_in_flight()
    job.take("transfer_size")  # it copies with io.Copy's own
    return ["--multi-thread-streams=0"]


def _local(job: Job, way: str, words: list[str]) -> Step:
    size = int(job.trial["size"])
    files = (job.file,)
    return Step(
        way,
        tuple(words),
        size,
        1,
        reads=files if way == "read" else (),
        writes=files if way == "write" else (),
        sources=_bucket.names(1) if way == "write" else [],
    )
