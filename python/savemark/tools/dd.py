"""dd: one worker that writes or reads a file from front to back."""

from __future__ import annotations

from dataclasses import replace

from savemark.tools.job import FILE, Job, Step

NAME = "dd"
VERSION = ("dd", "--version")
TARGETS = ("directory",)
SYNC = {"none": [], "end": ["fsync"], "each": []}


def steps(job: Job) -> list[Step]:
    """Return the one command line, or for a checkpoint two: the save and the restore."""
    if job.workload("sequential", "checkpoint") == "checkpoint":
        made = _checkpoint(job)
    else:
        job.only("workers", 1, "it is one process")
        job.only("duration", None, "it ends when it has moved everything")
        job.only("checksum", value=False, why="it does not look at what it reads")
        job.one_in_flight()
        operation = str(job.take("operation"))
        made = [_write(job, "write") if operation == "write" else _read(job, "read")]
        job.take("sync")
    job.complete()
    return made


def _checkpoint(job: Job) -> list[Step]:
    job.only("codec", "none", "it has none")
    job.only("streams", 0, "it writes one file, one request at a time")
    job.only("cache", "cold", "savemark drops the page cache before it reads")
    job.take("queue_depth")  # of no meaning without streams
    job.only("in_place", value=False, why="it reads into its own buffer")
    return [_write(job, "save"), _read(job, "restore")]


def _write(job: Job, phase: str) -> Step:
    flush = SYNC["end"] if phase == "save" else job.flushes(SYNC)
    sync = "end" if phase == "save" else str(job.trial["sync"])
    flags = [*_direct(job), *(["sync"] if sync == "each" else [])]
    kind = job.take("payload")
    job.take("seed")
    job.take("state")  # copied from memory, as our own data is
    source = "/dev/zero" if kind == "zeros" else f"{job.outgoing}/{FILE}"
    words = ["dd", f"if={source}", f"of={job.file}", *_blocks(job), "iflag=fullblock"]
    words += [f"oflag={','.join(flags)}"] if flags else []
    words += [f"conv={','.join(['notrunc', *flush])}"]
    ours = () if kind == "zeros" else (FILE,)
    step = _step(job, phase, words)
    return replace(step, durable=sync != "none", writes=(job.file,), sources=ours)


def _read(job: Job, phase: str) -> Step:
    flags = ["fullblock", *_direct(job)]
    words = ["dd", f"if={job.file}", "of=/dev/null", *_blocks(job), f"iflag={','.join(flags)}"]
    job.take("seed")
    job.take("payload")
    return replace(_step(job, phase, words), reads=(job.file,))


def _direct(job: Job) -> list[str]:
    return ["direct"] if job.take("direct") else []


def _unit(job: Job) -> str:
    return "chunk_size" if job.trial["workload"] == "checkpoint" else "transfer_size"


def _blocks(job: Job) -> list[str]:
    job.share(1, _unit(job))
    unit = int(job.trial[_unit(job)])
    return [f"bs={unit}", f"count={int(job.trial['size']) // unit}"]


def _step(job: Job, phase: str, words: list[str]) -> Step:
    size = int(job.trial["size"])
    return Step(phase, tuple(words), size, size // int(job.trial[_unit(job)]))
