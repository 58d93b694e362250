"""iozone: how it is run, and how its results are read.

Run: One process that writes or reads one file (automatic mode with one size).

Read: Throughput mode (`-t`), and the matrix of sizes and records (`-a`). kB are 1024 bytes.

In throughput mode "Children see" adds up what each process measured until its last call returned;
"Parent sees" divides the same bytes by the time until all children had closed their files and
ended, so it holds write-back that the children did not wait for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from savemark.errors import usage
from savemark.records.imported import PROBE, Imported
from savemark.records.run import Json
from savemark.tools._numbers import KIB, NS_PER_S, times, whole
from savemark.tools.job import Job, Step
from savemark.tools.source import Source

NAME = "iozone"
WHAT = "throughput and matrix logs of iozone"
VERSION = ("iozone", "-v")
TARGETS = ("directory",)

# How it is run.


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


# What it writes.

# What iozone calls a test, and what its phase is called here.
TESTS = {
    "initial writers": "write",
    "rewriters": "rewrite",
    "readers": "read",
    "re-readers": "reread",
    "random readers": "random_read",
    "random writers": "random_write",
}
SEEN = re.compile(
    r"(Children see|Parent sees) throughput for\s+(\d{1,9})\s+([A-Za-z -]{1,40}?)\s*="
    r"\s*([\d.]{1,20}) kB/sec"
)
SECTION = "Throughput test with "
# The columns of the matrix under their two lines of header, and after them the C library's own.
MATRIX = (
    *("write", "rewrite", "read", "reread", "random_read", "random_write"),
    *("read_backwards", "rewrite_record", "read_strided", "fwrite", "frewrite", "fread", "freread"),
)
HEADER = re.compile(r"^\s*kB\s+reclen\s+(?=\S)", re.IGNORECASE)


def recognises(source: Source) -> bool:
    """Whether iozone says its name, and that it measured throughput or a matrix."""
    if "Iozone: Performance Test of File I/O" not in source.text:
        return False
    return SECTION in source.text or any(HEADER.match(line) for line in source.lines)


def parse(source: Source) -> Imported:
    """Return an entry per number of processes, with a phase per test; of a matrix one per line."""
    text = source.text
    command = _matched(text, r"Command line used: (.{1,4000})") or ""
    about = {
        "tool": NAME,
        "tool_version": _matched(text, r"Version \$Revision: ([\d.]{1,20})"),
        "command": command.strip() or None,
        "timer_resolution_ns": times(
            _matched(text, r"Time Resolution = ([\d.]{1,20}) s"), NS_PER_S
        ),
    }
    notes: list[str] = []
    if SECTION in text:
        parts = text.split(SECTION)[1:]
        entries = [_throughput(source, SECTION + part, command, about, notes) for part in parts]
    else:
        entries = source.few(_matrix(source, command, about))
    if not entries:
        raise usage(f"{source.path}: no line of results in it", "was iozone stopped?")
    return Imported(label="local", entries=entries, notes=notes)


def _throughput(source: Source, text: str, command: str, about: Json, notes: list[str]) -> Json:
    seen: dict[str, dict[str, int]] = {}
    for who, _, test, rate in SEEN.findall(text):
        seen.setdefault(test, {})[who.split()[0]] = times(rate, KIB) or 0
    unknown = [test for test in seen if test not in TESTS]
    notes += [f"passed over the tests {', '.join(unknown)}"] if unknown else []
    known = {TESTS[test]: rates for test, rates in seen.items() if test in TESTS}
    if not known:
        raise usage(
            f"{source.path}: no throughput in it", "was iozone stopped before its first result?"
        )
    phases = [_phase(source, text, name, rates, command) for name, rates in known.items()]
    record = {"trial": {"workload": PROBE}, "source": about, "phases": phases}
    factors = {"workers": phases[0]["worker_count"]}
    return {"role": "trial", "name": NAME, "factors": factors, "record": record}


def _phase(source: Source, text: str, name: str, rates: dict[str, int], command: str) -> Json:
    children, parent = rates.get("Children"), rates.get("Parent")
    if not children:
        raise usage(
            f"{source.path}: {name} has no throughput of its children", "the log is damaged"
        )
    size_kb = whole(_matched(text, r"Each process writes a (\d{1,15}) kByte file") or "")
    workers = whole(_matched(text, r"Throughput test with (\d{1,9}) process") or "")
    record_kb = whole(_matched(text, r"in (\d{1,15}) kByte records") or "")
    if not size_kb or not workers:
        raise usage(
            f"{source.path}: it does not say what each process writes", "the log is damaged"
        )
    moved = size_kb * KIB * workers
    return {
        "name": name,
        "time_base": "wall",
        "user_bytes": moved,
        "elapsed_ns": round(moved / children * NS_PER_S),
        "outer_elapsed_ns": round(moved / parent * NS_PER_S) if parent else None,
        "reported_bytes_per_s": children,
        "worker_count": workers,
        "transfer_bytes": record_kb * KIB if record_kb else None,
        "dataset_bytes": moved,
        "contract": _contract(command) if "write" in name else None,
    }


def _contract(command: str) -> str:
    """Return what the time holds: -e and -c put fsync and close into it, -o opens with O_SYNC."""
    flags = set(command.split())
    if "-o" in flags:
        return "each"
    return "end" if "-e" in flags else "none"


def _matched(text: str, pattern: str) -> str | None:
    match = re.search(pattern, text)
    return match[1] if match else None


# The matrix.


def _matrix(source: Source, command: str, about: Json) -> Iterator[Json]:
    """Yield the lines; what was left out leaves a gap: a number belongs to what is above it."""
    ends: list[int] = []
    for line in source.lines:
        if HEADER.match(line):
            ends = [match.end() for match in re.finditer(r"\S+", line)]
            continue
        words = [(match[0], match.end()) for match in re.finditer(r"\S+", line)]
        if not ends or len(words) < 3 or not all(word.isdigit() for word, _ in words):
            continue
        size, record = (whole(word) or 0 for word, _ in words[:2])
        rates = _columns(ends[2:], words[2:])
        if rates is None or not size or not record:
            raise usage(f"{source.path}: `{line.strip()[:60]}` does not fit under its header")
        yield _line(size * KIB, record * KIB, rates, command, about)


def _columns(ends: list[int], words: list[tuple[str, int]]) -> dict[str, int] | None:
    """Return the rates by column; None where two numbers would belong to one."""
    names = MATRIX[: len(ends)]
    if len(words) == len(ends) <= len(MATRIX):
        return {name: whole(word) or 0 for name, (word, _) in zip(names, words, strict=True)}
    columns: dict[str, int] = {}
    for word, end in words:
        if not names:
            return None
        name = names[min(range(len(names)), key=lambda place: abs(ends[place] - end))]
        if name in columns:
            return None
        columns[name] = whole(word) or 0
    return columns


def _line(size: int, record: int, rates: dict[str, int], command: str, about: Json) -> Json:
    phases: list[Json] = []
    for name, rate in rates.items():
        if rate == 0:
            continue  # too fast for its clock, or left out
        phase: Json = {"name": name, "time_base": "wall", "user_bytes": size}
        phase |= {"elapsed_ns": round(size / (rate * KIB) * NS_PER_S), "worker_count": 1}
        phase |= {"transfer_bytes": record, "dataset_bytes": size, "operations": -(-size // record)}
        phase |= {"reported_bytes_per_s": rate * KIB}
        phase |= {"contract": _contract(command)} if "write" in name else {}
        phases.append(phase)
    factors = {"size": size, "transfer_size": record}
    found = {"trial": {"workload": "sequential"}, "source": about, "phases": phases}
    return {"role": "trial", "name": NAME, "factors": factors, "record": found}
