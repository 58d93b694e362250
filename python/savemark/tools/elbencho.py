"""elbencho: how it is run, and how its results are read.

Run: One file, a file of each thread, or many small ones, by threads of one process.

Read: Its result CSV, live CSV, JSON and text table.

"First done" is what all workers had moved when the first of them ended, "last done" when the last
one had. `threads` are those of one host. Rates and amounts of the CSV and the text are rounded to
whole numbers, so that small ones prove nothing. A phase SYNC is the flush of the writes before it.

A phase in which a worker had an error has no result: elbencho stops there. The error itself stands
in what it printed, never in its CSV or JSON.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import Any

from savemark.errors import usage
from savemark.records.imported import Imported
from savemark.records.run import Json
from savemark.tools._elbencho_rows import of_csv, of_object, of_text
from savemark.tools._json import objects
from savemark.tools._numbers import MIB, number, times, whole
from savemark.tools.job import Job, Step
from savemark.tools.source import Source

NAME = "elbencho"
WHAT = "result CSV, live CSV, JSON and text of elbencho"
VERSION = ("elbencho", "--version")
TARGETS = ("directory",)

# How it is run.

RESULT = "result.csv"
FLAGS = {"create": ("-d", "-w"), "stat": ("--stat",), "read": ("-r",), "remove": ("-F", "-D")}


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
        for phase, flags in FLAGS.items()
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


# What it writes.

NS_PER_MS, NS_PER_US = 1_000_000, 1000
ROUNDED = 50  # of a smaller whole number, half of the last digit is more than 1 %
TABLE = re.compile(r"^OPERATION\s+RESULT TYPE\s+FIRST DONE\s+LAST DONE", re.MULTILINE)
PHASES = {
    "STAT": "stat",
    "STATFILES": "stat",
    "HEADOBJ": "stat",
    "RMFILES": "remove",
    "RMOBJECTS": "remove",
    "MKDIRS": "create_directories",
    "MKBUCKETS": "create_directories",
    "RMDIRS": "remove_directories",
    "RMBUCKETS": "remove_directories",
}
# "2026-11-21 17:15:10 ERROR: ", of a worker or of all.
ERROR = re.compile(r"^.{0,60}?\bERROR(?: VERBOSE| DEBUG)?: *(.{1,400})", re.MULTILINE)
SKIPPED = "Skipping stats print due to unavailable worker results"
# With it a request that failed counts as one that was done.
LENIENT = "--s3ignoreerrors"
BETWEEN = ("SYNC", "DROPCACHE", "DROPCACHES")
CONFIG = {
    "hosts": "nodes",
    "threads": "workers",
    "dirs": "directories",
    "files": "files",
    "file size": "size",
    "block size": "transfer_size",
    "IO depth": "queue_depth",
    "path type": "path_type",
}


def recognises(source: Source) -> bool:
    """Whether it has one of the headers, or JSON with a phase that was first and last done."""
    text = source.text
    return (
        bool(TABLE.search(text) or (SKIPPED in text and "Phase: " in text))
        or "time ms [first]" in text
        or "RuntimeMS,Rank,MixType" in text
        or ('"phase_type"' in text and '"last_done"' in text)
    )


def parse(source: Source) -> Imported:
    """Return an entry per run; the phases of one run follow each other and differ in operation."""
    text = source.text
    if "RuntimeMS,Rank,MixType" in text:
        return _of_live(source)
    if "time ms [first]" in text:
        rows = source.few(of_csv(source))
    elif '"last_done"' in text:
        rows = [of_object(each) for each in objects(source) if "last_done" in each]
    else:
        rows = source.few(of_text(source))
    if not rows:
        return _without_result(source)
    if not all(row["operation"] for row in rows):
        raise usage(f"{source.path}: a result of elbencho without its operation", "it is damaged")
    trouble = _trouble(text)
    entries = [_entry(source, run, trouble) for run in _runs(rows)]
    if not entries:
        raise usage(f"{source.path}: elbencho did nothing but flush in it", "was it stopped?")
    spans = ",".join(f"{row['operation']}:{number(row['time ms [last]'])}" for row in rows)
    identity = f"elbencho {spans}"
    return Imported(entries=entries, identity=identity)


def _without_result(source: Source) -> Imported:
    """Return the failed trial of a run that said why it ended; else a usage error."""
    trouble = _trouble(source.text)
    if trouble is None:
        raise usage(f"{source.path}: elbencho has no result in it", "was it stopped?")
    message = f"{source.path.name}: elbencho has no result in it: {trouble}"
    error = {"kind": "failed", "message": message, "hint": None}
    return Imported(entries=[{"role": "trial", "name": NAME, "factors": {}, "error": error}])


def _trouble(text: str) -> str | None:
    """Return what elbencho said of its errors; None where it ended well."""
    match = ERROR.search(text)
    if match:
        return f"ERROR: {match[1].strip()}"
    return f"a phase has no result: {SKIPPED}" if SKIPPED in text else None


def _runs(rows: list[Json]) -> list[list[Json]]:
    """Part the rows where an operation comes again, or the setting changes."""
    runs: list[list[Json]] = []
    for row in rows:
        last = runs[-1] if runs else []
        again = any(row["operation"] == other["operation"] for other in last) or (
            bool(last) and (_mixed(row) or _mixed(last[-1]))
        )
        if row["operation"] in BETWEEN:
            # With --sync or --dropcache they come before and after every operation.
            if last and row["operation"] == "SYNC":
                last[-1].setdefault("synced", times(row.get("time ms [last]"), NS_PER_MS))
            continue
        if not last or again or _setting(row) != _setting(last[0]):
            runs.append([])
        runs[-1].append(row)
    return runs


def _mixed(row: Json) -> bool:
    """Whether its reads and writes went on at the same time."""
    return str(row["operation"]).startswith("RWMIX")


def _setting(row: Json) -> Json:
    names = (*CONFIG, "direct IO", "random", "label")
    return {name: row[name] for name in names if row.get(name) not in (None, "")}


def _entry(source: Source, rows: list[Json], note: str | None) -> Json:
    first = rows[0]
    factors = {
        ours: level
        for theirs, ours in CONFIG.items()
        if (level := whole(first.get(theirs)) if theirs != "path type" else first.get(theirs))
        not in (None, "")
    }
    direct = _switch(first.get("direct IO"))
    if direct is not None:
        factors["direct"] = direct
    if first.get("label"):
        factors["test"] = str(first["label"])
    if _mixed(first):
        factors["operation"] = "mixed"
    randomly = _switch(first.get("random"))
    if randomly is not None:
        factors["workload"] = "random" if randomly else "sequential"
    phases = [phase for row in rows for phase in _phases(source, row)]
    command = str(first.get("command") or "").replace('"', "").strip()
    if note is None and LENIENT in command.split():
        note = f"it ran with {LENIENT}: what failed counts as done"
    about = {
        "tool": NAME,
        "tool_version": first.get("version") or None,
        "command": command or None,
        "place": _place(command, first.get("path type")),
        "timer_resolution_ns": NS_PER_MS,
        "valid": note is None,
        "message": note,
    }
    record = {"trial": {}, "path": {"direct": direct}, "source": about, "phases": phases}
    return {"role": "trial", "name": NAME, "factors": factors, "record": record}


def _place(command: str, kind: Any) -> str | None:
    """Return the directory: the last word of the command, or where that file is."""
    last = command.split()[-1:]
    if not last or not last[0].startswith("/"):
        return None
    return last[0] if kind == "dir" else last[0].rpartition("/")[0]


def _switch(value: Any) -> bool | None:
    return None if value in (None, "") else str(value) not in ("0", "false")


def _phases(source: Source, row: Json) -> Iterator[Json]:
    yield _phase(source, row, "", "WRITE" if _mixed(row) else str(row["operation"]).upper())
    mixed = "rwmix read "
    if any(row.get(f"{mixed}{name} [last]") not in (None, "") for name in ("MiB", "bytes")):
        yield _phase(source, row, mixed, "READ")


def _phase(source: Source, row: Json, prefix: str, operation: str) -> Json:
    def of(name: str, which: str = "last") -> float | None:
        return number(row.get(f"{prefix}{name} [{which}]"))

    spans = [number(row.get(f"time ms [{which}]")) for which in ("first", "last")]
    if spans[1] is None or spans[1] < 0:
        raise usage(f"{source.path}: {operation} without the time of the last worker")
    moved, entries = _bytes(row, prefix, "last"), of("entries")
    transfer = whole(row.get("block size"))
    hosts, threads = (whole(row.get(name)) for name in ("hosts", "threads"))
    randomly = _switch(row.get("random")) and operation in ("READ", "WRITE")
    name = PHASES.get(operation, operation.lower())
    phase: Json = {
        "name": f"random_{name}" if randomly else name,
        "time_base": "wall",
        "elapsed_ns": times(spans[1], NS_PER_MS),
        "first_done_ns": times(spans[0], NS_PER_MS),
        "last_done_ns": times(spans[1], NS_PER_MS),
        "worker_count": threads * max(hosts or 1, 1) if threads else None,
    }
    if operation in ("WRITE", "READ"):
        phase |= {"user_bytes": moved, "stored_bytes": moved, "transfer_bytes": transfer}
        phase["first_done_bytes"] = _bytes(row, prefix, "first")
        phase["operations"] = moved // transfer if moved and transfer else None
        phase["reported_bytes_per_s"] = of("bytes/s") or _sure(of("MiB/s"), of("MiB"), MIB)
        phase["latency"] = _latency(row, f"{prefix}IO lat us")
    else:
        phase["operations"] = None if entries is None else round(entries)
        phase["latency"] = _latency(row, f"{prefix}Ent lat us")
    if operation == "WRITE":
        phase["contract"] = "none"
        if row.get("synced") is not None:
            phase["outer_elapsed_ns"] = phase["elapsed_ns"] + row["synced"]
    return phase


def _bytes(row: Json, prefix: str, which: str) -> int | None:
    """Return the bytes moved: exact where the number of files gives them, else of whole MiB."""
    exact = whole(row.get(f"{prefix}bytes [{which}]"))
    if exact is not None:
        return exact
    rounded = times(row.get(f"{prefix}MiB [{which}]"), MIB)
    files, size = whole(row.get(f"{prefix}entries [{which}]")), whole(row.get("file size"))
    if files and size and rounded is not None and abs(files * size - rounded) < MIB:
        return files * size
    return rounded or None  # less than a MiB is printed as 0


def _sure(rate: float | None, amount: float | None, unit: int) -> float | None:
    """Return a rate of whole numbers only where their rounding is small."""
    sure = rate is not None and rate >= ROUNDED and amount is not None and amount >= ROUNDED
    return rate * unit if sure and rate is not None else None


def _latency(row: Json, name: str) -> Json | None:
    latency = {
        ours: times(row.get(f"{name} [{theirs}]"), NS_PER_US) or None  # less than a µs is printed 0
        for ours, theirs in (("min_ns", "min"), ("mean_ns", "avg"), ("max_ns", "max"))
    }
    return latency if any(latency.values()) else None


# The live CSV.


def _of_live(source: Source) -> Imported:
    """Return each phase as it stood in its last line: the end of it came up to a second later."""
    reader = csv.DictReader(line for line in source.lines if line.strip())
    last: dict[str, Json] = {}
    for row in reader:
        mixed = row.get("MixType") or ""
        if (row.get("Rank") or "") == "Total" and row.get("Phase"):
            last[f"{row['Phase']} {mixed}"] = row
    phases = []
    for row in last.values():
        elapsed, moved = times(row.get("RuntimeMS"), NS_PER_MS), whole(row.get("DoneBytes"))
        operation = str(row["MixType"] if row.get("MixType") in ("Read", "Write") else row["Phase"])
        if not elapsed:
            continue
        name = PHASES.get(operation.upper(), operation.lower())
        phase: Json = {"name": name, "time_base": "wall", "elapsed_ns": elapsed}
        phase |= {"user_bytes": moved, "stored_bytes": moved} if moved else {}
        phase |= {"operations": whole(row.get("Entries"))} if not moved else {}
        phases.append(phase | ({"contract": "none"} if name == "write" else {}))
    if not phases:
        raise usage(f"{source.path}: elbencho's live CSV has no line of all workers (rank Total)")
    record = {"trial": {}, "source": {"tool": NAME}, "phases": phases}
    entry = {"role": "trial", "name": NAME, "factors": {}, "record": record}
    beside = source.path.name.replace(".live.csv", ".csv")
    note = "a live CSV ends before its run does; the result CSV is exact"
    return Imported(entries=[entry], notes=[note], beside=beside)
