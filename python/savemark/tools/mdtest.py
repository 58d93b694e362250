"""mdtest: how it is run, and how its results are read.

Run: Names instead of bytes, one run per phase, so that each has its own evidence.

Its result is the CSV of its ranks, which knows when each of them had ended (mdtest 4.0 and newer).

Read: Its text, and the CSV of its ranks.

A rate is items per second until the last rank has ended and all have met. With -P a second summary
holds seconds, whatever its title says. With -v there is a line per repeat; without it the repeats
are known by their mean alone. A rate of zero is a phase that did not run; zero files are a test of
nothing, which is shown as such. The CSV is read in `_mdtest_ranks`.
"""

from __future__ import annotations

import re
from itertools import pairwise

from savemark.errors import usage
from savemark.records.imported import Imported
from savemark.records.run import Json
from savemark.tools import _mdtest_ranks
from savemark.tools._flags import short_options
from savemark.tools._mpi import ENVIRONMENT, launched
from savemark.tools._numbers import NS_PER_S, binary_size, number, whole
from savemark.tools.job import Job, Step
from savemark.tools.source import Source

NAME = "mdtest"
WHAT = "text and rank CSV of mdtest"
VERSION = ("mdtest", "--version")
TARGETS = ("directory",)

# How it is run.

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


# What it writes.

BANNER = re.compile(
    r"^mdtest-(\S+) was launched with (\d{1,9}) total task\(s\) on (\d{1,9}) node", re.MULTILINE
)
CSV = "rank,items,rate-"
ROW = re.compile(
    r"^\s*(Directory|File|Tree) (creation|stat|read|rename|removal)\s*:?"
    r"\s+(\S{1,40})\s+(\S{1,40})\s+(\S{1,40})\s+(\S{1,40})\s*$"
)
# The words of the engine's own workload `metadata`.
PHASES = {"creation": "create", "removal": "remove"}
KINDS = {"File": "files", "Directory": "directories", "Tree": "tree"}
SUMMARY = re.compile(r"^SUMMARY.*\(of (\d{1,9}) iterations\)")
# Values that end up as factors, by their flag; the sizes apart.
COUNTS = {"n": "items", "I": "items_per_directory", "z": "depth", "b": "branches"}
SIZES = {"w": "file_size", "e": "read_size"}
VALUES = "abdefgGiIlnNpsVwWxz"
# Of -v: the first rank's own time and rate, which all ranks share but for the clocks.
REPEAT = re.compile(
    r"\b(Directory|File|Tree) (creation|stat|read|rename|removal) *:"
    r" +[0-9.]{1,20} sec, +([0-9.e+]{1,30}) ops/sec"
)
AGREE = 0.02  # as HC-21

Operation = tuple[str, str]  # ("File", "creation")
Phases = dict[Operation, Json]


def recognises(source: Source) -> bool:
    """Whether mdtest says its name, or the CSV has its columns."""
    return source.text.lstrip().startswith(CSV) or bool(BANNER.search(source.text))


def parse(source: Source) -> Imported:
    """Return an entry per kind (files, directories, the tree), with a phase per operation."""
    if source.text.lstrip().startswith(CSV):
        return _of_ranks(source)
    entries = []
    starts = [*(match.start() for match in BANNER.finditer(source.text)), len(source.text)]
    for start, end in pairwise(starts):
        entries += _of_text(source, source.text[start:end])
    return Imported(entries=entries)


def _of_text(source: Source, text: str) -> list[Json]:
    banner = BANNER.match(text)
    assert banner is not None  # the text was cut there
    command = re.search(r"^Command line used: (.+)$", text, re.MULTILINE)
    words = command[1].strip() if command else ""
    ranks = int(banner[2])
    factors = {"nodes": int(banner[3]), "ranks": ranks, **_options(words)}
    about = {"tool": NAME, "tool_version": banner[1], "command": words or None, "valid": True}
    about["place"] = short_options(words, VALUES).get("d")
    trouble = re.search(r"^(?:ior )?ERROR[: ].*", text, re.MULTILINE)
    about |= {"valid": False, "message": trouble[0].strip()} if trouble else {}
    counted = re.search(
        r"^\s*(\d{1,9}) tasks, (\d{1,18}) (?:files|directories)", text, re.MULTILINE
    )
    items = int(counted[2]) if counted else None
    rates, iterations = _first_summary(source, text)
    if not rates and items != 0:
        message = f"{source.path.name}: mdtest has no summary in it; was it stopped?"
        error = {"kind": "failed", "message": message, "hint": None}
        return [{"role": "trial", "name": NAME, "factors": factors, "error": error}]
    common: Json = {"worker_count": ranks}
    repeats = _repeats(text, rates, ranks) if iterations > 1 else [rates]
    if not repeats:
        repeats, common = [rates], {**common, "statistic": "mean"}
    entries = []
    for each in repeats:
        phases = {
            key: _phase(key[1], items if key[0] != "Tree" else None, rate)
            for key, rate in each.items()
        }
        if items == 0:
            nothing = ("creation", "stat", "removal")
            phases |= {("File", name): _phase(name, 0, 0.0, 0) for name in nothing}
        entries += _entries(phases, factors, about, common)
    return entries


def _repeats(text: str, means: dict[Operation, float], ranks: int) -> list[dict[Operation, float]]:
    """Return the rates of each repeat, where -v has printed them and their mean is that of all."""
    repeats: list[dict[Operation, float]] = []
    for match in REPEAT.finditer(text):
        key, rate = (match[1], match[2]), number(match[3])
        if key not in means or not rate:
            continue
        if not repeats or key in repeats[-1]:
            repeats.append({})
        # The tree is the first rank's alone.
        repeats[-1][key] = rate * (1 if match[1] == "Tree" else ranks)
    for key, mean in means.items():
        own = [each[key] for each in repeats if key in each]
        if not own or len(own) < len(repeats) or abs(sum(own) / len(own) / mean - 1) > AGREE:
            return []
    return repeats


def _first_summary(source: Source, text: str) -> tuple[dict[Operation, float], int]:
    """Return the means of the first summary; a second one is of times."""
    rates: dict[Operation, float] = {}
    iterations = 0
    for line in text.split("\n"):
        title = SUMMARY.match(line)
        if title and iterations:
            break
        iterations = int(title[1]) if title else iterations
        row = ROW.match(line) if iterations else None
        if row:
            mean = number(row[5])
            if mean is None or mean < 0:
                raise usage(f"{source.path}: the rate of {row[1]} {row[2]} is `{row[5]}`")
            if mean > 0:
                rates[row[1], row[2]] = mean
    return rates, iterations


def _entries(phases: Phases, factors: Json, about: Json, common: Json) -> list[Json]:
    entries = []
    for kind, ours in KINDS.items():
        own = [common | phase for (of, _), phase in phases.items() if of == kind]
        if own:
            record = {"trial": {"workload": "metadata"}, "source": about, "phases": own}
            head = {"role": "trial", "name": NAME, "factors": {"kind": ours, **factors}}
            entries.append({**head, "record": record})
    return entries


def _phase(
    operation: str, items: int | None, rate: float | None, elapsed_ns: int | None = None
) -> Json:
    """Return a phase; how many directories a tree has nobody says, so it may have a rate alone."""
    if elapsed_ns is None and items is not None and rate:
        elapsed_ns = round(items / rate * NS_PER_S)
    return {
        "name": PHASES.get(operation, operation),
        "time_base": "wall",
        "elapsed_ns": elapsed_ns,
        "operations": items,
        "reported_ops_per_s": rate,
    }


def _options(command: str) -> Json:
    flags = short_options(command, VALUES)
    options: Json = {ours: whole(flags[flag]) for flag, ours in COUNTS.items() if flag in flags}
    options |= {ours: binary_size(flags[flag]) for flag, ours in SIZES.items() if flag in flags}
    if flags:
        options["shared"] = "u" not in flags
        options["neighbour"] = (whole(flags.get("N", "0")) or 0) != 0
        options["sync"] = "each" if "y" in flags else "group" if "Y" in flags else "none"
    return {name: level for name, level in options.items() if level is not None}


def _of_ranks(source: Source) -> Imported:
    """Return every repeat that the CSV tells of."""
    csv = _mdtest_ranks.read(source)
    factors = {"ranks": csv.count, "items": csv.items}
    common = {"worker_count": csv.count}
    entries = [
        entry
        for repeat in csv.repeats
        for entry in _entries(_phases(repeat), factors, {"tool": NAME}, common)
    ]
    return Imported(entries=entries, notes=csv.notes)


def _phases(repeat: dict[_mdtest_ranks.Operation, _mdtest_ranks.Timed]) -> Phases:
    named = {}
    for (kind, operation), timed in repeat.items():
        phase = _phase(operation, timed.items, timed.rate, timed.elapsed_ns)
        if timed.ends:
            phase |= dict(zip(("first_done_ns", "last_done_ns"), timed.ends, strict=True))
        named[kind, operation] = phase
    return named
