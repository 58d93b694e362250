"""s5cmd: how it is run, and how its results are read.

Run: `cp`, and `cat` for what is read into nowhere.

Read: Its JSON log (`--json`), one object per file copied, with the time of GNU or bash `time`.

The log has the sizes, and nothing of it a time: without a line of `time` after it (`real 0m1.2s`,
`1.23` of `-f %e`) the bytes are known and the rate is not. Plain logs without sizes say less still.
"""

from __future__ import annotations

import re

from savemark.errors import usage
from savemark.records.imported import Imported
from savemark.records.run import Json
from savemark.tools import _bucket
from savemark.tools._json import objects, part
from savemark.tools._numbers import whole
from savemark.tools._shell_time import real_ns
from savemark.tools.job import FILE, Job, Step
from savemark.tools.source import Source

NAME = "s5cmd"
WHAT = "logs of s5cmd cp, with the output of time"
VERSION = ("s5cmd", "version")
TARGETS = ("url",)

# How it is run.


def steps(job: Job) -> list[Step]:
    """Return one command line per direction."""
    made = [_step(job, way) for way in _bucket.ways(job)]
    job.only("timeout", 60, "it waits as long as it takes")
    job.complete()
    return made


def _step(job: Job, way: str) -> Step:
    request, in_flight = _bucket.request_bytes(job, way), _bucket.in_flight(job, way)
    if request % _bucket.MIB:
        which = "part_size" if way == "write" else "transfer_size"
        job.refuse(which, "it counts parts in whole MiB", "use a multiple of 1MiB")
    at_a_time = _bucket.at_a_time(job, way)
    words = ["s5cmd", "--retry-count", str(job.take("retries")), "--numworkers", str(at_a_time)]
    if server := _bucket.endpoint():
        words += ["--endpoint-url", server]
    nowhere = way == "read" and _bucket.discards(job)
    words += ["cat" if nowhere else "cp", "--concurrency", str(in_flight // at_a_time or 1)]
    words += ["--part-size", str(request // _bucket.MIB)]
    if way == "write":
        words += [f"{job.outgoing}/", f"{job.place}/"]
    elif nowhere:
        words += [f"{job.place}/{FILE}"]
    else:
        words += [f"{job.place}/*", f"{job.incoming}/"]
    return _bucket.step(job, way, words, discard=nowhere)


# What it writes.

PLAIN = re.compile(r"^(cp|mv|upload|download) (\S{1,2000}) (\S{1,2000})$", re.MULTILINE)


def recognises(source: Source) -> bool:
    """Whether it has s5cmd's JSON messages, or plain lines of copies of which one side is S3."""
    outcome = any(f'"{name}":' in source.text for name in ("success", "error"))
    if '"operation":' in source.text and outcome and "s3://" in source.text:
        return True
    lines = PLAIN.findall(source.text)
    return any(a.startswith("s3://") or b.startswith("s3://") for _, a, b in lines)


def parse(source: Source) -> Imported:
    """Return one entry: everything copied, as `write` (to S3) or `read` (from it)."""
    copies = [each for each in objects(source) if each.get("operation") in ("cp", "mv")]
    done = [each for each in copies if each.get("success") is True]
    sides = [(str(each.get("source")), str(each.get("destination"))) for each in done]
    sides += [(one, other) for _, one, other in PLAIN.findall(source.text)]
    failed = len(copies) - len(done) + len(re.findall(r"^ERROR ", source.text, re.MULTILINE))
    if not sides:
        if not failed:
            raise usage(f"{source.path}: s5cmd copied nothing in it")
        message = next((str(each["error"]) for each in copies if "error" in each), "see the log")
        error = {"kind": "failed", "message": f"{source.path.name}: {message[:300]}", "hint": None}
        entry = {"role": "trial", "name": NAME, "factors": {}, "error": error}
        return Imported(entries=[entry])
    sizes = [whole(part(each.get("object")).get("size")) for each in done]
    known = [size for size in sizes if size is not None]
    moved = sum(known) if len(known) == len(sides) else None
    up = not sides[0][0].startswith("s3://")
    phase: Json = {"name": "write" if up else "read", "time_base": "wall"}
    phase |= {"elapsed_ns": real_ns(source.text), "operations": len(sides)}
    phase |= {"user_bytes": moved, "stored_bytes": moved}
    # S3 answers a PUT when the object is there, whole and under its name.
    phase |= {"contract": "rename", "atomic": True} if up else {}
    about: Json = {"tool": NAME, "valid": not failed}
    about["message"] = f"s5cmd: {failed} copies failed" if failed else None
    record = {"trial": {}, "source": about, "phases": [phase]}
    entry = {"role": "trial", "name": NAME, "factors": {"files": len(sides)}, "record": record}
    return Imported(entries=[entry])
