"""IOR: how it is run, and how its results are read.

Run: One shared file, or a file of each rank, that ranks write and read in parts.

Its result is the JSON on its standard output, where its warnings are as well.

Read: The text of versions 2 to 4, its CSV, its JSON, and the CSV of its ranks.

A line of the results is one phase of one repeat: MiB/s, and seconds in which files are opened,
bytes moved and files closed. IOPS are by the seconds of the transfers alone, so that they times
the transfer size are not the bandwidth. IOR's JSON has had brackets in wrong places, so its parts
are read one by one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from savemark.errors import usage
from savemark.records.imported import Imported
from savemark.records.run import Json
from savemark.tools._ior_options import Options
from savemark.tools._json import limit_values
from savemark.tools._mpi import ENVIRONMENT, launched
from savemark.tools._numbers import MIB, NS_PER_S, number, times, whole
from savemark.tools.job import Job, Step
from savemark.tools.source import Source

NAME = "ior"
WHAT = "text, CSV, JSON and rank CSV of IOR"
VERSION = ("ior", "--version")
TARGETS = ("directory",)

# How it is run.

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


# What it writes.

BANNER = re.compile(r"^IOR-(\S+?): MPI Coordinated Test of Parallel I/O", re.MULTILINE)
CSV = "access,bw(MiB/s)"
RANKS = "access,rank,runtime-with-openclose"
# A part of the JSON that holds no other: parameters, options, one result, one line of the summary.
PART = re.compile(r'(?:"([A-Za-z]+)"\s*:\s*)?(\{[^{}]*\})')
# These say what IOR does next, and nothing about the numbers.
HARMLESS = (
    *("exists already and will be deleted", "exists already and will be overwritten"),
    "unable to open the hintsFile",
)
# What a stonewall is for: less was moved than was asked for.
WALLED = (
    *("Expected aggregate file size", "Stat() of aggregate file size"),
    *("Using actual aggregate bytes moved", "Maybe caused by deadlineForStonewalling"),
)
TROUBLE = re.compile(r"^\s*(?:ior )?(?:ERROR|WARNING)[: ].*", re.MULTILINE)
COLUMNS = {
    "bw(MiB/s)": "bwMiB",
    "total(s)": "totalTime",
    "iter": "iteration",
    "xfer(KiB)": "xferKiB",
}


def recognises(source: Source) -> bool:
    """Whether it has the banner, the header of a CSV, or JSON with IOR's parameters."""
    first = source.text.lstrip()[:200]
    if first.startswith((CSV, RANKS)) or BANNER.search(source.text):
        return True
    return '"bwMiB"' in source.text or '"bwMaxMIB"' in source.text


def parse(source: Source) -> Imported:
    """Return an entry per repeat, with the phases `write` and `read`."""
    first = source.text.lstrip()[:200]
    if first.startswith(RANKS):
        return Imported(entries=[_of_ranks(source)])
    if first.startswith(CSV):
        tests = [(Options(), list(_table(source, source.lines, ",")))]
    elif '"bwMiB"' in source.text or '"bwMaxMIB"' in source.text:
        tests = list(_of_json(source))
    else:
        tests = list(_of_text(source))
    version = _version(source)
    said = [line.strip() for line in TROUBLE.findall(source.text)]
    harmless = (*HARMLESS, *(WALLED if WALLED[-1] in source.text else ()))
    trouble = [line for line in said if not any(word in line for word in harmless)]
    trouble.sort(key=lambda line: "ERROR" not in line)  # a warning may tell why, an error does
    entries = []
    for options, rows in tests:
        about: Json = {"tool": NAME, "tool_version": version, "command": options.command or None}
        about["place"] = options.place
        about |= {"valid": not trouble, "message": trouble[0] if trouble else None}
        entries += list(_entries(source, options, rows, about))
    return Imported(entries=entries)


def _version(source: Source) -> str | None:
    banner = BANNER.search(source.text)
    match = banner or re.search(r'"Version"\s*:\s*"(?:IOR-)?([^"]{1,60})"', source.text)
    return match[1] if match else None


def _entries(source: Source, options: Options, rows: list[Json], about: Json) -> Iterator[Json]:
    head = {"role": "trial", "name": NAME, "factors": options.factors()}
    repeats: dict[int, list[Json]] = {}
    for row in rows:
        repeats.setdefault(row["iteration"], []).append(row)
    for each in repeats.values():
        phases = [_phase(options, row) for row in each]
        record = {"trial": {}, "path": {"direct": options.direct}, "source": about}
        yield {**head, "record": {**record, "phases": phases}}
    if not repeats:
        why = about["message"] or "it was stopped before its first result"
        message = f"{source.path.name}: IOR has no result in it: {why}"
        yield {**head, "error": {"kind": "failed", "message": message, "hint": None}}


def _phase(options: Options, row: Json) -> Json:
    bandwidth, elapsed = row["bandwidth"], row["elapsed_ns"]
    moved = None if options.deadline else options.total
    if row["coarse"]:
        elapsed = round(moved / bandwidth * NS_PER_S) if moved and bandwidth else None
    elif moved is None:
        moved = times(bandwidth, elapsed / NS_PER_S)
    transfer = row["transfer"] or options.size("t", "xfersize", "transferSize")
    nodes = options.count("", "nodes")
    phase = {
        "name": row["access"],
        "time_base": "wall",
        "elapsed_ns": elapsed,
        "user_bytes": moved,
        "stored_bytes": moved,
        # Of a stonewall the bytes are bandwidth × time: a little off whole transfers.
        "operations": round(moved / transfer) if moved and transfer else None,
        "worker_count": row["ranks"] or options.count("N", "tasks", "numTasks"),
        "transfer_bytes": transfer,
        # Of one client: what could fit into its memory.
        "dataset_bytes": moved // nodes if moved and nodes else None,
        "reported_bytes_per_s": bandwidth,
        "statistic": row["statistic"],
    }
    if row["access"] == "write":
        return phase | {"contract": options.contract}
    return phase | {"shifted": options.shifted}


def _row(source: Source, values: Json, before: int, where: str) -> Json | None:
    """Return a line of results; None for one that is none (a removal, a failed test)."""
    access = str(values.get("access", "")).strip()
    if access not in ("write", "read"):
        return None
    bandwidth, elapsed = times(values.get("bwMiB"), MIB), times(values.get("totalTime"), NS_PER_S)
    if bandwidth is None or elapsed is None or elapsed < 0 or bandwidth < 0:
        raise usage(f"{source.path}{where}: a {access} without bandwidth or time", "it is damaged")
    return {
        "access": access,
        "bandwidth": bandwidth,
        "elapsed_ns": elapsed,
        "coarse": _coarse(values.get("totalTime")),
        "transfer": times(values.get("xferKiB"), 1024),
        "ranks": whole(values.get("numTasks")),
        "iteration": before if (n := whole(values.get("iteration"))) is None else n,
        "statistic": values.get("statistic"),
    }


def _coarse(seconds: Any) -> bool:
    """Whether half of the last digit of a time is more than half a percent of it."""
    value = number(seconds) or 0.0
    digits = len(str(seconds).partition(".")[2])
    return bool(0.5 / 10**digits > 0.005 * value)


# Text and CSV.


def _of_text(source: Source) -> Iterator[tuple[Options, list[Json]]]:
    """Yield the tests of a log: each begins with its options."""
    command = re.search(r"^Command line\s*(?:used)?\s*:\s*(.+)$", source.text, re.MULTILINE)
    words = command[1].strip() if command else ""
    lines = source.lines
    starts = [n for n, line in enumerate(lines) if re.match(r"(Options|Summary):\s*$", line)]
    for start, end in pairwise([*starts, len(lines)]):
        shown = {}
        for line in lines[start + 1 : end]:
            pair = re.match(r"\s*([A-Za-z][A-Za-z ]{1,40}?)\s*[:=]\s*(.*?)\s*$", line)
            if re.match(r"\s*(access\s+bw|Results:)", line):
                break
            if pair:
                shown[pair[1]] = pair[2]
        yield Options(words, shown), list(_table(source, lines[start:end], None, start))
    if not starts:
        yield Options(words), []


def _table(
    source: Source, lines: Iterable[str], separator: str | None, start: int = 0
) -> Iterator[Json]:
    columns: list[str] = []
    before: dict[str, int] = {}
    for number_, line in enumerate(lines, start=start + 1):
        words = [word.strip() for word in line.split(separator)] or [""]
        if words[0] == "access" and len(words) > 2:
            columns = [COLUMNS.get(word, word) for word in words]
        elif words[0] == "Operation":
            columns = []  # the summary begins, which has others
        elif words[0] in ("write", "read") and len(words) == len(columns):
            row = _row(
                source,
                dict(zip(columns, words, strict=True)),
                before.get(words[0], 0),
                f":{number_}",
            )
            if row:
                before[words[0]] = row["iteration"] + 1
                yield row


# JSON.


def _of_json(source: Source) -> Iterator[tuple[Options, list[Json]]]:
    match = re.search(r'"Command line"\s*:\s*("(?:[^"\\]|\\.){0,20000}")', source.text)
    command = str(_object(match[1]) or "") if match else ""
    tests: list[tuple[Json, list[Json]]] = []
    summary: list[Json] = []
    shown: Json = {}
    limit_values(source)
    for name, text in PART.findall(source.text):
        values = _object(text)
        if not isinstance(values, dict):
            continue
        if "bwMiB" in values and "access" in values:
            if not tests:
                tests.append((shown, []))
            rows = tests[-1][1]
            same = sum(row["access"] == values["access"] for row in rows)
            row = _row(source, values, same, "")
            rows += [row] if row else []
        elif "bwMeanMIB" in values:
            row = _row(source, _mean(values), 0, "")
            summary += [row] if row else []
        elif name in ("Parameters", "Options"):
            if name == "Parameters":
                shown = {}
                tests.append((shown, []))
            shown |= values
    for shown, rows in tests or [({}, [])]:
        yield Options(command, shown), rows or (summary if len(tests) < 2 else [])


def _object(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None


def _mean(values: Json) -> Json:
    """Return the mean of the repeats as a row: JSON of some versions has nothing else."""
    return {
        "access": values.get("operation"),
        "bwMiB": values.get("bwMeanMIB"),
        "totalTime": values.get("MeanTime"),
        "numTasks": values.get("numTasks"),
        "statistic": "mean",
    }


# The CSV of the ranks.


def _of_ranks(source: Source) -> Json:
    """Return the ranks as one: rate times seconds of each, until the last had closed."""
    sides: dict[str, list[tuple[float, float]]] = {}
    for place, line in enumerate(source.lines[1:], start=2):
        words = line.split(",")
        if not line.strip() or words[0] not in ("write", "read"):
            continue
        values = [number(word) for word in words[1:]]
        if len(values) < 5 or None in values:
            raise usage(f"{source.path}:{place}: a rank without its time or rate", "it is damaged")
        _, whole_s, _, whole_rate, _ = (float(value or 0) for value in values[:5])
        if whole_s <= 0:
            raise usage(f"{source.path}:{place}: a rank that took no time", "it is damaged")
        sides.setdefault(words[0], []).append((whole_s, whole_s * whole_rate))
    if not sides:
        raise usage(f"{source.path}: no rank in it", "was IOR stopped before its end?")
    phases = []
    for access, ranks in sides.items():
        ends = [seconds for seconds, _ in ranks]
        moved = round(sum(amount for _, amount in ranks))
        phase = {"name": access, "time_base": "wall", "elapsed_ns": round(max(ends) * NS_PER_S)}
        phase |= {"user_bytes": moved, "stored_bytes": moved, "worker_count": len(ranks)}
        phase["first_done_ns"] = round(min(ends) * NS_PER_S)
        phase["last_done_ns"] = phase["elapsed_ns"]
        if access == "write":
            phase["contract"] = "unknown"
        phases.append(phase)
    record = {"trial": {}, "source": {"tool": NAME}, "phases": phases}
    factors = {"ranks": max(len(ranks) for ranks in sides.values())}
    return {"role": "trial", "name": NAME, "factors": factors, "record": record}
