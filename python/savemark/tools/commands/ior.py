"""IOR: one shared file that ranks write or read in parts."""

from __future__ import annotations

from savemark.tools.commands._mpi import ENVIRONMENT, launched
from savemark.tools.commands.job import Job, Step

NAME = "ior"
VERSION = ("ior", "--version")
TARGETS = ("directory",)
RESULT = "result.json"
SYNC = {"none": [], "end": ["-e"], "each": ["-Y"]}


def steps(job: Job) -> list[Step]:
    """Return the one command line."""
    job.workload("sequential")
    job.one_in_flight()
    job.only("checksum", value=False, why="it does not look at what it reads")
    job.only("duration", None, "its stonewall ends a phase earlier, and never repeats it")
    operation, workers = str(job.take("operation")), int(job.take("workers"))
    transfer, part = int(job.take("transfer_size")), job.share(workers, "transfer_size")
    words = ["ior", "-a", "POSIX", "-w" if operation == "write" else "-r", "-k", "-E", "-s", "1"]
    words += ["-t", str(transfer), "-b", str(part), "-o", job.file]
    words += ["--posix.odirect"] if job.take("direct") else []
    words += ["-O", f"summaryFile={job.scratch}/{RESULT}", "-O", "summaryFormat=JSON"]
    if operation == "write":
        words += [*SYNC[str(job.take("sync"))], "-l", "random"]
        job.only("payload", "random", "it makes random data")
    for name in ("sync", "payload", "seed"):
        job.take(name)  # its data has no seed that would make ours
    job.complete()
    size = part * workers
    return [
        Step(
            operation,
            launched(workers, words),
            size,
            size // transfer,
            workers,
            durable=operation == "write" and job.trial["sync"] != "none",
            reads=(job.file,) if operation == "read" else (),
            writes=(job.file,) if operation == "write" else (),
            environment=ENVIRONMENT,
            result=RESULT,
            theirs=(operation,),
        )
    ]
