"""The AWS CLI: `aws s3 cp`. Part size and requests in flight stand in a configuration file."""

from __future__ import annotations

from savemark.tools.commands import _bucket
from savemark.tools.commands.job import FILE, Job, Step

NAME = "aws"
VERSION = ("aws", "--version")
TARGETS = ("url",)
CONFIG = "aws-config"  # the runner writes it: the user's own with `Step.aws` in its profile


def steps(job: Job) -> list[Step]:
    """Return one command line per direction."""
    made = [_step(job, way) for way in _bucket.ways(job)]
    job.complete()
    return made


def _step(job: Job, way: str) -> Step:
    words = ["aws", "s3", "cp", "--only-show-errors"]
    if server := _bucket.endpoint():
        words[1:1] = ["--endpoint-url", server]
    words += ["--cli-read-timeout", str(max(1, round(job.take("timeout"))))]
    if way == "write":
        words += ["--recursive", job.outgoing, f"{job.place}/"]
    elif _bucket.discards(job):
        words += [f"{job.place}/{FILE}", "-"]
    else:
        words += ["--recursive", f"{job.place}/", job.incoming]
    request = _bucket.request_bytes(job, way)
    settings = {
        "max_concurrent_requests": _bucket.in_flight(job, way),
        "multipart_chunksize": request,
        "multipart_threshold": request,
    }
    environment = {
        "AWS_CONFIG_FILE": f"{job.scratch}/{CONFIG}",
        "AWS_MAX_ATTEMPTS": str(int(job.take("retries")) + 1),
        "AWS_PAGER": "",
    }
    return _bucket.step(
        job,
        way,
        words,
        environment=environment,
        discard=way == "read" and _bucket.discards(job),
        aws=settings,
    )
