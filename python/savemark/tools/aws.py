"""The AWS CLI: how it is run, and how its results are read.

Run: `aws s3 cp`. Part size and requests in flight stand in a configuration file.

Read: Its log, with the time of GNU or bash `time`.

The progress (`Completed 1.0 GiB/1.0 GiB (92.1 MiB/s) with 0 file(s) remaining`) rounds the size to
two digits, and its last rate is of a moment: rate = size / time, where `time` was asked.
"""

from __future__ import annotations

import re

from savemark.errors import usage
from savemark.records.imported import Imported
from savemark.records.run import Json
from savemark.tools import _bucket
from savemark.tools._numbers import binary_size
from savemark.tools._shell_time import real_ns
from savemark.tools.job import FILE, Job, Step
from savemark.tools.source import Source

NAME = "aws"
WHAT = "logs of aws s3 cp, with the output of time"
VERSION = ("aws", "--version")
TARGETS = ("url",)

# How it is run.

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


# What it writes.

DONE = re.compile(r"^(upload|download|copy|move): (\S{1,2000}) to (\S{1,2000})", re.MULTILINE)
PROGRESS = re.compile(
    r"Completed ([\d.]{1,12} (?:Bytes|[KMGTP]iB))/~?([\d.]{1,12} (?:Bytes|[KMGTP]iB)) \("
)
FAILED = re.compile(
    r"^(?:(?:upload|download|copy|move) failed: |fatal error: An error occurred \().{0,300}",
    re.MULTILINE,
)


def recognises(source: Source) -> bool:
    """Whether it has lines of copies of which a side is S3, or of the command's own errors."""
    text = source.text.replace("\r", "\n")
    lines = [*(match[0] for match in DONE.finditer(text)), *FAILED.findall(text)]
    return any("s3://" in line or line.startswith("fatal error: ") for line in lines)


def parse(source: Source) -> Imported:
    """Return one entry: everything copied, as `write` (to S3) or `read` (from it)."""
    text = source.text.replace("\r", "\n")
    copies, failed = DONE.findall(text), FAILED.findall(text)
    head = {"role": "trial", "name": NAME, "factors": {"files": len(copies)}}
    if not copies:
        error = {"kind": "failed", "message": f"{source.path.name}: {failed[0]}", "hint": None}
        return Imported(entries=[{**head, "error": error}])
    totals = [size for _, of in PROGRESS.findall(text) if (size := binary_size(of)) is not None]
    moved = totals[-1] if totals else None
    up = copies[0][2].startswith("s3://")
    phase: Json = {"name": "write" if up else "read", "time_base": "wall"}
    phase |= {"elapsed_ns": real_ns(text), "operations": len(copies)}
    phase |= {"user_bytes": moved, "stored_bytes": moved}
    phase |= {"contract": "rename", "atomic": True} if up else {}
    if not up and phase["elapsed_ns"] is None and moved is None:
        raise usage(f"{source.path}: neither a size nor a time is in it", "run it under time")
    about = {"tool": NAME, "valid": not failed, "message": failed[0] if failed else None}
    record = {"trial": {}, "source": about, "phases": [phase]}
    return Imported(entries=[{**head, "record": record}])
