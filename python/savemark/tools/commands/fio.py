"""fio: sequential and random transfers, and a checkpoint as files that are written and read."""

from __future__ import annotations

from dataclasses import replace

from savemark.tools.commands.job import FILE, Job, Step

NAME = "fio"
VERSION = ("fio", "--version")
TARGETS = ("directory",)
ENGINES = {"uring": "io_uring", "posix": "psync"}
# A mix of random bytes and zeros that a codec makes as small as ours: per cent of zeros, from the
# ratios of zstd 1 (text 3, bf16 1.28, fp32 1.08).
ZEROS = {"text": 67, "bf16": 22, "fp32": 7}
RESULT = "result.json"


def steps(job: Job) -> list[Step]:
    """Return one job of fio per phase."""
    workload = job.workload("sequential", "random", "checkpoint")
    made = _checkpoint(job) if workload == "checkpoint" else [_transfers(job, workload)]
    job.complete()
    return made


def _transfers(job: Job, workload: str) -> Step:
    """Return `sequential` or `random`: one file, workers that share it."""
    operation, workers = str(job.take("operation")), int(job.take("workers"))
    transfer, size = int(job.take("transfer_size")), int(job.take("size"))
    words = [f"--filename={job.file}", f"--bs={transfer}", f"--numjobs={workers}"]
    if workload == "random":
        words += [f"--rw=rand{operation}", f"--size={size // transfer * transfer}"]
        words += ["--norandommap", *_limits(job, size // transfer, transfer)]
    else:
        part = job.share(workers, "transfer_size")
        words += [f"--rw={operation}", f"--size={part}", f"--offset_increment={part}"]
        words += _time(job)
    if operation == "write":
        words += _sync(job)
    else:
        job.take("sync")
    if workload == "sequential":
        job.only("checksum", value=False, why="it does not look at what it reads")
    return Step(
        operation,
        _line(job, words + _queue(job, int(job.take("queue_depth")))),
        user_bytes=size,
        operations=size // transfer,
        workers=workers,
        durable=operation == "write" and job.trial["sync"] != "none",
        reads=(job.file,) if operation == "read" else (),
        writes=(job.file,) if operation == "write" else (),
        result=RESULT,
        theirs=(operation, f"random_{operation}"),
    )


def _checkpoint(job: Job) -> list[Step]:
    """Return the save and the restore: a file per stream, each synced at its end."""
    job.only("codec", "none", "it has none")
    job.only("cache", "cold", "savemark drops the page cache before it reads")
    job.only("in_place", value=False, why="it reads into its own buffers")
    streams = int(job.take("streams"))
    part = job.share(max(streams, 1), "chunk_size")
    words = [
        f"--directory={job.place}",
        f"--filename_format={FILE}.$jobnum",
        f"--bs={job.trial['chunk_size']}",
        f"--size={part}",
        f"--numjobs={max(streams, 1)}",
        *_queue(job, int(job.take("queue_depth")) if streams else 1),
    ]
    files = tuple(f"{job.file}.{number}" for number in range(max(streams, 1)))
    size = part * len(files)
    save, restore = (
        Step(
            phase,
            _line(job, [*words, f"--rw={way}", *more]),
            size,
            size // int(job.trial["chunk_size"]),
            len(files),
            result=RESULT,
            theirs=(way,),
        )
        for phase, way, more in (("save", "write", ["--end_fsync=1"]), ("restore", "read", []))
    )
    return [replace(save, durable=True, writes=files), replace(restore, reads=files)]


def _line(job: Job, words: list[str]) -> tuple[str, ...]:
    common = ["--name=savemark", "--thread", "--group_reporting", "--output-format=json"]
    common += [f"--output={job.scratch}/{RESULT}", f"--randseed={job.take('seed') or 1}"]
    return ("fio", *common, *words, *_data(job))


def _queue(job: Job, depth: int) -> list[str]:
    engine = ENGINES[str(job.trial["storage"])]
    words = [f"--ioengine={engine}", f"--direct={int(bool(job.take('direct')))}"]
    if engine == "psync":
        return words  # one request at a time, as the engine's posix
    batch = job.take("batch")
    batched = [f"--iodepth_batch_submit={batch}", f"--iodepth_batch_complete_min={batch}"]
    job.only("registered_files", value=True, why="it registers them")
    if job.take("fixed_buffers") == "on":
        words.append("--fixedbufs=1")
    return [*words, f"--iodepth={depth}", "--registerfiles=1", *(batched if batch else [])]


def _data(job: Job) -> list[str]:
    kind = str(job.take("payload"))
    if job.take("state") is not None:
        job.refuse("state", "it makes its own data")
    if kind == "zeros":
        return ["--zero_buffers"]
    return [f"--buffer_compress_percentage={ZEROS[kind]}"] if kind in ZEROS else []


def _sync(job: Job) -> list[str]:
    return job.flushes({"none": [], "end": ["--end_fsync=1"], "each": ["--fsync=1"]})


def _time(job: Job) -> list[str]:
    duration = job.take("duration")
    return [] if duration is None else ["--time_based", f"--runtime={round(duration * 1e6)}us"]


def _limits(job: Job, blocks: int, transfer: int) -> list[str]:
    """Return where random I/Os end: the first of a time and a number per worker."""
    operations, timed = job.take("operations"), _time(job)
    if timed:
        return timed + ([f"--number_ios={operations}"] if operations else [])
    return [f"--io_size={(operations or blocks) * transfer}"]
