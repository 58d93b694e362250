"""IOR: one shared file, or a file of each rank, that ranks write and read in parts.

Its result is the JSON on its standard output, where its warnings are as well.
"""

from __future__ import annotations

from dataclasses import replace

from savemark.tools.commands._mpi import ENVIRONMENT, launched
from savemark.tools.commands.job import Job, Step

NAME = "ior"
VERSION = ("ior", "--version")
TARGETS = ("directory",)
SYNC = {"none": [], "end": ["-e"], "each": ["-Y"]}
# Remembers how far the ranks wrote until the deadline, so that they read as much.
WALL = "stonewall"


def steps(job: Job) -> list[Step]:
    """Return one command line per phase."""
    workload = job.workload("sequential", "shared_file", "file_per_process")
    job.one_in_flight()
    made = [_sequential(job)] if workload == "sequential" else _geometry(job, workload)
    for name in ("sync", "payload", "seed"):
        job.take(name)  # its data has no seed that would make ours
    job.complete()
    return made


def _sequential(job: Job) -> Step:
    """Return the one phase: a contiguous part of the file for each rank."""
    job.only("checksum", value=False, why="it does not look at what it reads")
    job.only("duration", None, "its stonewall ends a phase earlier, and never repeats it")
    workers = int(job.take("workers"))
    part = job.share(workers, "transfer_size")
    # The file is there: laid out to be read, or with its room reserved.
    words = ["-E", "-b", str(part), "-s", "1"]
    return _step(job, str(job.take("operation")), words, part * workers, (job.file,))


def _geometry(job: Job, workload: str) -> list[Step]:
    """Return the write and the read of segments of blocks of transfers."""
    job.only("cache", "cold", "savemark drops the page cache before it reads")
    job.only("verify", value=False, why="its check compares with data that it did not write")
    for name in ("stripe_count", "stripe_size"):
        why = "built without Lustre it ignores its option; `lfs setstripe` sets a directory's"
        job.only(name, None, why)
    workers, segments = int(job.take("workers")), int(job.take("segments"))
    if job.take("reorder") != 0 and workers > 1:
        why = "its -C moves ranks by whole nodes, and this is one; left out it is 1"
        job.refuse("reorder", why, "use --reorder 0; the page cache is dropped before the read")
    block, own = int(job.take("block_size")), workload == "file_per_process"
    words = ["-b", str(block), "-s", str(segments), *(["-F"] if own else [])]
    words += [*_order(job, own=own, segments=segments), *_deadline(job)]
    files = tuple(f"{job.file}.{rank:08}" for rank in range(workers)) if own else (job.file,)
    size = block * segments * workers
    return [_step(job, operation, words, size, files) for operation in ("write", "read")]


def _order(job: Job, *, own: bool, segments: int) -> list[str]:
    if not job.take("random_offsets"):
        return []
    if not own or segments > 1:
        why = "its -z shuffles within a block, and in a shared file between the ranks"
        job.refuse("random_offsets", why, "use file_per_process with --segments 1")
    return ["-z"]


def _deadline(job: Job) -> list[str]:
    """Return the stonewall; both phases have one, as ours do."""
    deadline, wear_out = job.take("phase_deadline"), job.take("wear_out")
    if deadline is None:
        return []
    if float(deadline) != int(deadline):
        job.refuse("phase_deadline", "it counts whole seconds", f"use {int(deadline) + 1}s")
    if not wear_out:
        why = "without it ranks write different amounts, and its read looks for all of them"
        job.refuse("wear_out", why, "add --wear-out")
    wall = f"stoneWallingStatusFile={job.scratch}/{WALL}"
    return ["-D", str(int(deadline)), "-O", "stoneWallingWearOut=1", "-O", wall]


def _step(job: Job, operation: str, words: list[str], size: int, files: tuple[str, ...]) -> Step:
    workers, transfer = int(job.trial["workers"]), int(job.take("transfer_size"))
    words = ["ior", "-a", "POSIX", "-w" if operation == "write" else "-r", "-k", *words]
    words += ["-t", str(transfer), "-o", job.file, "-O", "summaryFormat=JSON"]
    words += ["--posix.odirect"] if job.take("direct") else []
    step = Step(operation, (), size, size // transfer, workers, theirs=(operation,))
    if operation == "write":
        words += [*job.flushes(SYNC), "-l", "random"]
        job.only("payload", "random", "it makes random data")
        step = replace(step, writes=files, durable=job.trial["sync"] != "none")
    else:
        step = replace(step, reads=files)
    return replace(step, argv=launched(workers, words), environment=ENVIRONMENT)
