"""s5cmd: `cp`, and `cat` for what is read into nowhere."""

from __future__ import annotations

from savemark.tools.commands import _bucket
from savemark.tools.commands.job import FILE, Job, Step

NAME = "s5cmd"
VERSION = ("s5cmd", "version")
TARGETS = ("url",)


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
