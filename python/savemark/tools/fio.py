"""fio: how it is run, and how its results are read.

Run: Sequential and random transfers, and a checkpoint as files that are written and read.

Read: Its JSON and JSON+, of versions 2 and 3, also of several clients.

fio 3 measures latency in ns and fio 2 in µs; io_bytes of fio 2 are KiB. `bw` is KiB/s. Jobs of one
name and group are clones that ran side by side: their bytes add up, and the time is the longest.
Of clients, the job "All clients" is the sum of the others and would count them twice.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from savemark.errors import usage
from savemark.records.imported import Imported
from savemark.records.run import Json
from savemark.tools._fio_latency import latency
from savemark.tools._json import objects, part, parts
from savemark.tools._numbers import BINARY, DECIMAL, KIB, number, times, whole
from savemark.tools.job import FILE, Job, Step
from savemark.tools.source import Source

NAME = "fio"
WHAT = "JSON and JSON+ of fio"
VERSION = ("fio", "--version")
TARGETS = ("directory",)

# How it is run.

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


# What it writes.

ALL = "All clients"
DIRECTIONS = ("read", "write", "trim")
NS_PER_MS = 1_000_000
SECTOR = 512
NO_ERROR = "fio names no error"


def recognises(source: Source) -> bool:
    """Whether it is JSON that names fio's version."""
    return '"fio version"' in source.text


def parse(source: Source) -> Imported:
    """Return an entry per job (clones are one), with a phase per direction that was asked for."""
    files = [each for each in objects(source) if "fio version" in each]
    if not files:
        raise usage(f"{source.path}: fio's JSON is cut off", "was fio stopped before its end?")
    entries = [entry for each in files for entry in _entries(source, each)]
    return Imported(entries=entries)


def _version(whole_file: Json) -> str:
    return str(whole_file["fio version"]).removeprefix("fio-")


def _entries(source: Source, whole_file: Json) -> list[Json]:
    jobs = parts(whole_file.get("client_stats")) or parts(whole_file.get("jobs"))
    groups: dict[tuple[str, str], list[Json]] = {}
    for job in jobs:
        if job.get("jobname") != ALL:
            key = str(job.get("groupid", 0)), str(job.get("jobname", ""))
            groups.setdefault(key, []).append(job)
    if not groups:
        raise usage(f"{source.path}: fio's JSON holds no job", "did every job fail to start?")
    total = [job for job in jobs if job.get("jobname") == ALL]
    shared = _globals(whole_file)
    several = len(groups) > 1
    entries = []
    for (_, name), clones in groups.items():
        # fio has merged the clients' percentiles, which nobody can do afterwards.
        stats = clones if several or not total else total[:1]
        options = shared | part(clones[0].get("job options"))
        entry = _entry(source, options, clones, stats)
        record = entry.get("record")
        if record:
            record["source"]["tool_version"] = _version(whole_file)
        if several:
            entry["factors"]["job"] = name
        elif record and len(record["phases"]) == 1:
            record["phases"][0]["device"] = _device(whole_file)
        entries.append(entry)
    return entries


def _globals(whole_file: Json) -> Json:
    """Return the options of all jobs; of clients there is a list with one object for each."""
    merged: Json = {}
    for each in parts(whole_file.get("global options")):
        merged = {**each, **merged}
    return merged


def _entry(source: Source, options: Json, clones: list[Json], stats: list[Json]) -> Json:
    factors = _factors(options)
    hosts = {str(job["hostname"]) for job in clones if "hostname" in job}
    if len(hosts) > 1:
        factors["nodes"] = len(hosts)
    phases = []
    for way in DIRECTIONS:
        sides = [part(job.get(way)) for job in stats]
        if any(side.get("io_bytes") or side.get("total_ios") for side in sides) or (
            _asked(options, way) and any(sides)
        ):
            phases.append(_phase(options, way, stats, sides, len(clones)))
    if not phases:
        raise usage(f"{source.path}: fio measured neither reads nor writes in it")
    if len(phases) == 1:
        phases[0] |= _cpu(stats)
    head = {"role": "trial", "name": NAME, "factors": factors}
    if not any(phase["user_bytes"] or phase["operations"] for phase in phases):
        message = f"{source.path.name}: fio moved nothing; {_error(clones)}"
        return {**head, "error": {"kind": "failed", "message": message, "hint": None}}
    started = [whole(job.get("job_start")) for job in clones]
    return {
        **head,
        "record": {
            "trial": {},
            "path": {"storage": options.get("ioengine"), "direct": _switch(options, "direct")},
            "source": {
                "tool": NAME,
                "timer_resolution_ns": NS_PER_MS,
                "place": _place(options),
                **_validity(clones),
            },
            "started_unix_ns": min((ms * NS_PER_MS for ms in started if ms), default=None),
            "phases": phases,
        },
    }


def _place(options: Json) -> str | None:
    """Return the directory of its files."""
    folder, file = (str(options.get(name) or "") for name in ("directory", "filename"))
    return file.rpartition("/")[0] if file.startswith("/") else folder or None


def _phase(
    options: Json, way: str, stats: list[Json], sides: list[Json], clones: int
) -> dict[str, Any]:
    times_ns = [times(side.get("runtime"), NS_PER_MS) or 0 for side in sides]
    elapsed = max(times_ns)
    moved = _sum(_bytes(side) for side in sides)
    operations = _sum(whole(side.get("total_ios")) for side in sides)
    randomly = "rand" in str(options.get("rw", options.get("readwrite", "")))
    alone = sides[0] if len(sides) == 1 else {}
    bandwidth = number(alone.get("bw_bytes"))
    if bandwidth is None:
        bandwidth = times(alone.get("bw"), KIB)
    jobs = whole(options.get("numjobs"))
    phase = {
        "name": f"random_{way}" if randomly and way != "trim" else way,
        "time_base": "wall",
        "elapsed_ns": elapsed,
        "user_bytes": moved,
        "stored_bytes": moved,
        "operations": operations,
        "worker_count": clones if clones > 1 else jobs or (1 if options else None),
        "transfer_bytes": _sizes(options).get(way),
        "dataset_bytes": _dataset(options, jobs),
        "reported_bytes_per_s": bandwidth if elapsed else None,
        "reported_ops_per_s": number(alone.get("iops")) if elapsed else None,
        "latency": latency(sides),
    }
    if way == "write":
        phase["contract"] = _contract(options)
        phase["sync_latency"] = latency([part(job.get("sync")) for job in stats])
    if len(sides) > 1:
        phase |= {"first_done_ns": min(times_ns), "last_done_ns": elapsed}
    return phase


def _bytes(side: Json) -> int | None:
    """Return the bytes moved: fio 2 writes KiB into `io_bytes`, which its rate gives away."""
    written = whole(side.get("io_bytes"))
    if written is None or "io_kbytes" in side or "bw_bytes" in side:
        return written
    by_rate = (times(side.get("bw"), KIB) or 0) * (number(side.get("runtime")) or 0) / 1000
    return written if written > by_rate / 32 else written * KIB


def _sum(amounts: Any) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def _cpu(stats: list[Json]) -> Json:
    """Return what the jobs used of the processor: a share of the sum of their run times."""
    found: Json = {}
    for ours, theirs in (("cpu_user_ns", "usr_cpu"), ("cpu_system_ns", "sys_cpu")):
        shares = [
            times(job.get(theirs), (whole(job.get("job_runtime")) or 0) * NS_PER_MS / 100)
            for job in stats
            if "job_runtime" in job
        ]
        found[ours] = _sum(shares)
    return found


def _validity(clones: list[Json]) -> Json:
    error = _error(clones)
    return {"valid": False, "message": error} if error != NO_ERROR else {"valid": True}


def _error(clones: list[Json]) -> str:
    failed = [job for job in clones if whole(job.get("error")) or whole(job.get("total_err"))]
    if not failed:
        return NO_ERROR
    error = whole(failed[0].get("error")) or whole(failed[0].get("first_error"))
    return f"fio: error {error} in {failed[0].get('jobname')}"


def _device(whole_file: Json) -> Json | None:
    """Return what the one disk moved, where fio says it in sectors (3.37 and later)."""
    disks = parts(whole_file.get("disk_util"))
    if len(disks) != 1 or "write_sectors" not in disks[0]:
        return None
    read, written = (times(disks[0].get(f"{way}_sectors"), SECTOR) for way in ("read", "write"))
    return {"name": str(disks[0].get("name")), "read_bytes": read, "written_bytes": written}


# The options of a job, in our words.


def _factors(options: Json) -> Json:
    pattern = str(options.get("rw", options.get("readwrite", "")))
    sizes = _sizes(options)
    factors = {
        "workload": ("random" if "rand" in pattern else "sequential") if pattern else None,
        "operation": _operation(pattern),
        "transfer_size": sizes.get("write" if pattern.endswith("write") else "read"),
        "queue_depth": whole(options.get("iodepth")),
        "workers": whole(options.get("numjobs")),
        "size": _size(options, options.get("size")),
        "direct": _switch(options, "direct"),
        "sync": _contract(options) if "write" in pattern or "rw" in pattern else None,
        "ioengine": options.get("ioengine"),
    }
    return {name: level for name, level in factors.items() if level is not None}


def _operation(pattern: str) -> str | None:
    if not pattern:
        return None
    if pattern in ("rw", "readwrite", "randrw"):
        return "mixed"
    return pattern.removeprefix("rand").split(":")[0]


def _asked(options: Json, way: str) -> bool:
    operation = _operation(str(options.get("rw", options.get("readwrite", ""))))
    return operation == way or (operation == "mixed" and way != "trim")


def _switch(options: Json, name: str) -> bool | None:
    """Return a yes-or-no option: one without a value is on, and unknown without any options."""
    if not options:
        return None
    return str(options.get(name, "0")).strip() not in ("0", "false")


def _contract(options: Json) -> str:
    """Return what was durable at the end of the time; `direct` is told apart elsewhere."""
    if not options:
        return "unknown"
    if str(options.get("sync", "0")) not in ("0", "none", "false"):
        return "each"
    every = [whole(options.get(name)) or 0 for name in ("fsync", "fdatasync")]
    if any(every):
        return "each" if 1 in every else "group"
    ends = _switch(options, "end_fsync") or _switch(options, "fsync_on_close")
    return "end" if ends else "none"


def _sizes(options: Json) -> dict[str, int | None]:
    """Return the block size per direction: `bs=4k,64k` is of reads, then of writes and trims."""
    written = str(options.get("bs", options.get("blocksize", "")))
    if not written:
        return {}
    words = written.split(",")
    filled = (words + [words[-1]] * 2)[:3]
    return {
        way: _size(options, word or words[0]) for way, word in zip(DIRECTIONS, filled, strict=True)
    }


def _size(options: Json, text: Any) -> int | None:
    """Return bytes as fio counts: unless kb_base is 1000, `k` is 1024 and `ki` is 1000."""
    match = re.fullmatch(r"\s*([0-9.]{1,20})\s*([kmgtp]?)(i?)b?\s*", str(text).lower())
    if not match:
        return None
    swapped = str(options.get("kb_base", "1024")) != "1000"
    units = BINARY if bool(match[3]) != swapped else DECIMAL
    return times(match[1], units[match[2]])


def _dataset(options: Json, jobs: int | None) -> int | None:
    """Return the bytes of all files: jobs that name a file share it, others have one each."""
    size = _size(options, options.get("size"))
    if size is None:
        return None
    return size if "filename" in options else size * (jobs or 1)
