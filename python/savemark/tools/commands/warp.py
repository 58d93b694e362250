"""warp: random ranges of one object, for a time (`warp get --range-size`)."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from savemark.tools.commands import _bucket
from savemark.tools.commands.job import Job, Step

NAME = "warp"
VERSION = ("warp", "--version")
TARGETS = ("url",)
RESULT = "warp"  # it appends .csv.zst, with a line per request


def steps(job: Job) -> list[Step]:
    """Return the one command line; it reads the object that was laid out before."""
    job.workload("random")
    job.only("operation", "read", "it writes whole objects for a time, and a trial writes a size")
    if job.take("duration") is None:
        job.refuse("duration", "it always runs for a time", "use --duration 10s")
    job.only("operations", None, "it ends after a time alone")
    for name in ("payload", "size", "sync"):
        job.take(name)
    job.take("seed")  # its offsets have a seed of their own
    server = urlsplit(_bucket.endpoint() or "https://s3.amazonaws.com")
    bucket, _, prefix = job.place.split("://", 1)[1].partition("/")
    transfer = int(job.take("transfer_size"))
    workers = int(job.take("workers")) * int(job.take("queue_depth"))
    words = ["warp", "get", "--no-color", f"--host={server.netloc}", f"--bucket={bucket}"]
    words += [f"--prefix={prefix}/", "--noclear", "--list-existing", "--full"]
    words += ["--range", f"--range-size={transfer}", f"--concurrent={workers}"]
    words += [f"--duration={job.trial['duration']}s", "--autoterm=false"]
    words += [f"--benchdata={job.scratch}/{RESULT}"]
    words += ["--tls"] if server.scheme == "https" else []
    for name in ("part_size", "concurrency", "retries", "timeout"):
        job.take(
            name
        )  # of writing the object, which is not measured; it counts errors, not retries
    job.complete()
    return [
        Step(
            "read",
            tuple(words),
            workers=workers,
            environment=_credentials(),
            result=f"{RESULT}.csv.zst",
            theirs=("read", "get", "GET", "random_read"),
        )
    ]


def _credentials() -> dict[str, str]:
    """Return its names for what the environment holds: never flags, which everybody can see."""
    names = {
        "WARP_ACCESS_KEY": "AWS_ACCESS_KEY_ID",
        "WARP_SECRET_KEY": "AWS_SECRET_ACCESS_KEY",
        "WARP_SESSION_TOKEN": "AWS_SESSION_TOKEN",
        "WARP_REGION": "AWS_REGION",
    }
    return {theirs: os.environ[ours] for theirs, ours in names.items() if os.environ.get(ours)}
