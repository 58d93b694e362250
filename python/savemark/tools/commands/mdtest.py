"""mdtest: names instead of bytes, one run per phase, so that each has its own evidence.

Its result is the CSV of its ranks, which knows when each of them had ended (mdtest 4.0 and newer).
"""

from __future__ import annotations

from savemark.tools.commands._mpi import ENVIRONMENT, launched
from savemark.tools.commands.job import Job, Step

NAME = "mdtest"
VERSION = ("mdtest", "--version")
TARGETS = ("directory",)
RESULT = "ranks.csv"
FILES = {"create": "-C", "stat": "-T", "read": "-E", "remove": "-r"}


def steps(job: Job) -> list[Step]:
    """Return one command line per phase; it has no phase that renames files."""
    job.workload("metadata")
    items, workers, size = (int(job.take(n)) for n in ("items", "workers", "file_size"))
    if items % workers:
        job.refuse("items", "its ranks make equally many", f"use a multiple of {workers}")
    if job.take("sync") == "end":
        job.refuse("sync", "it syncs each file or none", "use --sync none")
    job.only("phase_deadline", None, "its stonewall is for making alone, in a run of all phases")
    kind = str(job.take("kind"))
    words = ["mdtest", "-n", str(items // workers), "-d", job.place]
    words += ["-F"] if kind == "files" else ["-D"]
    words += ["-w", str(size), "-e", str(size)] if size else []
    words += [] if job.take("shared") else ["-u"]
    words += ["-N", "1"] if job.take("neighbour") else []
    words += ["-y"] if job.trial["sync"] == "each" else []
    words += [f"--saveRankPerformanceDetails={job.scratch}/{RESULT}"]
    for name in ("payload", "seed", "cache", "direct", "rename"):
        job.take(name)  # its bytes are its own; what is measured are names, which it never renames
    job.complete()
    return [
        Step(
            phase,
            launched(workers, [*words, flag]),
            user_bytes=items * size if phase in ("create", "read") else 0,
            operations=items,
            workers=workers,
            durable=phase in ("create", "remove") and job.trial["sync"] == "each",
            environment=ENVIRONMENT,
            result=RESULT,
            theirs=_names(phase, kind),
            cold=job.trial["cache"] == "cold" and phase in ("stat", "read"),
        )
        for phase, flag in FILES.items()
        if kind == "files" or phase != "read"
    ]


def _names(phase: str, kind: str) -> tuple[str, ...]:
    what = "file" if kind == "files" else "directory"
    theirs = {"create": "creation", "remove": "removal"}.get(phase, phase)
    return (phase, f"{what}_{phase}", f"{what}_{theirs}")
