"""elbencho: one file, a file of each thread, or many small ones, by threads of one process."""

from __future__ import annotations

from savemark.tools.commands.job import Job, Step

NAME = "elbencho"
VERSION = ("elbencho", "--version")
TARGETS = ("directory",)
RESULT = "result.csv"
PHASES = {"create": ("-d", "-w"), "stat": ("--stat",), "read": ("-r",), "remove": ("-F", "-D")}


def steps(job: Job) -> list[Step]:
    """Return one command line per phase."""
    workload = job.workload("sequential", "random", "shared_file", "file_per_process", "metadata")
    if workload in ("sequential", "random"):
        made = [_transfers(job, workload)]
    else:
        made = _metadata(job) if workload == "metadata" else _geometry(job, workload)
    job.take("seed")  # it has none: its offsets and data differ each time
    job.complete()
    return made


def _transfers(job: Job, workload: str) -> Step:
    operation, workers = str(job.take("operation")), int(job.take("workers"))
    size, transfer = int(job.take("size")), int(job.take("transfer_size"))
    words = ["-w" if operation == "write" else "-r", "-t", str(workers), "-b", str(transfer)]
    words += ["-s", str(size), *_queue(job), *_data(job, operation)]
    if operation == "write":
        job.only("sync", "none", "it syncs the whole machine after its time, and never a file")
    job.take("sync")
    if workload == "random":
        blocks = size // transfer
        if job.take("operations") is not None and job.trial["operations"] != blocks:
            job.refuse("operations", "it visits as many blocks as the file has")
        words += ["--rand", f"--randamount={blocks * transfer * workers}"]
    else:
        job.only("checksum", value=False, why="it does not look at what it reads")
        job.share(workers, "transfer_size")
    if job.take("duration") is not None:
        seconds = float(job.trial["duration"])
        if seconds != int(seconds):
            job.refuse("duration", "it counts whole seconds", f"use --duration {int(seconds) + 1}s")
        words += ["--infloop", f"--timelimit={int(seconds)}"]
    return Step(
        operation,
        _line(job, [*words, job.file]),
        size,
        size // transfer,
        workers,
        reads=(job.file,) if operation == "read" else (),
        writes=(job.file,) if operation == "write" else (),
        result=RESULT,
        theirs=(operation, f"random_{operation}"),
    )


def _geometry(job: Job, workload: str) -> list[Step]:
    """Return the write and the read of a file in equal parts, or of a file of each thread."""
    own = workload == "file_per_process"
    workers, segments = int(job.take("workers")), int(job.take("segments"))
    if not own and segments > 1:
        job.refuse("segments", "each of its threads has one part of the file", "use --segments 1")
    if job.take("reorder") != 0 and workers > 1:
        why = "each of its threads reads what it wrote; left out it is 1"
        job.refuse("reorder", why, "use --reorder 0; the page cache is dropped before the read")
    job.only("random_offsets", value=False, why="its random offsets may come twice")
    job.only("phase_deadline", None, "it ends a phase without knowing how far each thread came")
    job.only("verify", value=False, why="its check needs data of its own kind")
    job.only("cache", "cold", "savemark drops the page cache before it reads")
    job.only("sync", "none", "it syncs the whole machine after its time, and never a file")
    part, transfer = int(job.take("block_size")) * segments, int(job.take("transfer_size"))
    size = part * workers
    files = tuple(f"{job.place}/r{n}-f0" for n in range(workers)) if own else (job.file,)
    # -n 0: no directories, so that the files lie in the folder itself.
    where = ["-n", "0", "-N", "1", job.place] if own else [job.file]
    words = ["-t", str(workers), "-b", str(transfer), "-s", str(part if own else size)]
    words += [*_queue(job), *(["--preallocfile"] if job.take("preallocate") else [])]
    return [
        Step(
            operation,
            _line(job, [flag, *words, *_data(job, operation), *where]),
            size,
            size // transfer,
            workers,
            reads=files if operation == "read" else (),
            writes=files if operation == "write" else (),
            result=RESULT,
            theirs=(operation,),
        )
        for operation, flag in (("write", "-w"), ("read", "-r"))
    ]


def _metadata(job: Job) -> list[Step]:
    job.only("kind", "files", "what it looks at are files")
    job.only("sync", "none", "it never syncs a file")
    job.only("shared", value=False, why="each of its threads has directories of its own")
    job.only("neighbour", value=False, why="each of its threads visits its own files")
    job.only("phase_deadline", None, "it ends a phase without wear-out")
    job.only("payload", "random", "it makes random data")
    items, workers, size = (int(job.take(n)) for n in ("items", "workers", "file_size"))
    if items % workers:
        job.refuse("items", "its threads make equally many", f"use a multiple of {workers}")
    words = ["-t", str(workers), "-n", "1", "-N", str(items // workers), "-s", str(size)]
    words += ["-b", str(max(size, 1)), job.place]
    job.take("cache")
    job.take("direct")  # of no meaning for names
    job.take("rename")  # it has no such phase
    return [
        Step(
            phase,
            _line(job, [*flags, *words]),
            user_bytes=items * size if phase in ("create", "read") else 0,
            operations=items,
            workers=workers,
            result=RESULT,
            theirs=_names(phase),
            cold=job.trial["cache"] == "cold" and phase in ("stat", "read"),
        )
        for phase, flags in PHASES.items()
        if phase != "read" or size
    ]


def _names(phase: str) -> tuple[str, ...]:
    return {"create": ("create", "write"), "remove": ("remove", "rmfiles")}.get(phase, (phase,))


def _queue(job: Job) -> list[str]:
    words = ["--direct"] if job.take("direct") else []
    depth = int(job.take("queue_depth"))
    if job.trial["storage"] == "posix" or depth == 1:
        return words
    return [*words, f"--iodepth={depth}"]


def _data(job: Job, operation: str) -> list[str]:
    if operation == "read":
        job.take("payload")  # was laid out before
        return []
    job.only("payload", "random", "it makes random data")
    return ["--blockvarpct=100"]


def _line(job: Job, words: list[str]) -> tuple[str, ...]:
    result = f"{job.scratch}/{RESULT}"
    return ("elbencho", "--nolive", f"--csvfile={result}", *words)
