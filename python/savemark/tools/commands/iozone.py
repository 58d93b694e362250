"""iozone: one process that writes or reads one file (automatic mode with one size)."""

from __future__ import annotations

from savemark.tools.commands.job import Job, Step

NAME = "iozone"
VERSION = ("iozone", "-v")
TARGETS = ("directory",)
KIB = 1024


def steps(job: Job) -> list[Step]:
    """Return the one command line."""
    job.workload("sequential")
    job.only("workers", 1, "with several it writes a file each, and here they share one")
    job.one_in_flight()
    job.only("checksum", value=False, why="it does not look at what it reads")
    job.only("duration", None, "it ends when it has moved everything")
    operation, size = str(job.take("operation")), int(job.take("size"))
    transfer = int(job.take("transfer_size"))
    job.share(1, "transfer_size")
    words = ["iozone", "-f", job.file, "-w", "-s", f"{size // KIB}k", "-r", f"{transfer // KIB}k"]
    # -+n: no rewrite or reread after it.
    words += ["-i", "0" if operation == "write" else "1", "-+n"]
    words += ["-I"] if job.take("direct") else []
    if operation == "write":
        words += job.flushes({"none": [], "end": ["-e"], "each": ["-o"]})
    for name in ("sync", "seed"):
        job.take(name)
    if operation == "write":
        job.only("payload", "random", "it makes data of its own")
        words += ["-+w", "0"]  # no part of it is the same twice
    job.take("payload")
    job.complete()
    return [
        Step(
            operation,
            tuple(words),
            size,
            size // transfer,
            durable=operation == "write" and job.trial["sync"] != "none",
            reads=(job.file,) if operation == "read" else (),
            writes=(job.file,) if operation == "write" else (),
            theirs=(operation,),
        )
    ]
