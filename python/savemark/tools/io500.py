"""IO500: how it is run, and how its results are read.

Run: All twelve phases in one process, told by its file of settings.

Read: Result.txt and result_summary.txt, from the scripts of 2018 to the program of today.

Bandwidth is GiB/s, also where old files say GB/s; rates are thousands per second. The score is
√(BW · MD), BW being the geometric mean of four phases and MD that of eight: it is computed again.
A run whose score is [INVALID] has broken a rule of IO500, and none of its numbers count there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from savemark.errors import SavemarkError, usage
from savemark.records import io500 as format_
from savemark.records.imported import Imported
from savemark.records.io500 import PHASES, recomputed
from savemark.records.run import Json
from savemark.tools._mpi import ENVIRONMENT, launched
from savemark.tools._numbers import GIB, NS_PER_S, number, times, whole
from savemark.tools.job import Job, Step
from savemark.tools.source import Source

NAME = "io500"
WHAT = "result.txt and result_summary.txt of IO500"
VERSION: tuple[str, ...] = ()  # stands in its results
TARGETS = ("directory",)

# How it is run.

CONFIG = "io500.ini"
RESULTS = "io500"
# `;` would begin a comment in its file of settings.
DROP = "sync && echo 3 > /proc/sys/vm/drop_caches"


def steps(job: Job) -> list[Step]:
    """Return the one process that runs everything."""
    job.workload("io500")
    if job.trial["storage"] != "posix":
        job.refuse("storage", "it reads and writes with pread and pwrite", "use --storage posix")
    job.only("direct", value=False, why="47008 bytes are no multiple of what direct I/O needs")
    job.only("verify", value=True, why="it always compares what it reads")
    if job.trial["cache"] != job.trial["names"]:
        hint = "use --cache warm, or --names cold, too (as root)"
        job.refuse("cache", "it drops pages, inodes and names, or nothing", hint)
    if job.take("names") == "cold" and os.geteuid() != 0:
        job.refuse("names", "only root may drop them", "run as root, or use --names warm")
    if float(job.take("phase_deadline")) % 1:
        job.refuse("phase_deadline", "it counts whole seconds", "use a whole number of seconds")
    job.own_data("random")
    workers = int(job.take("workers"))
    for name in ("cache", "direct", "seed", "transfer_size", "block_size", "segments"):
        job.take(name)  # in its file of settings
    job.take("files_per_worker")
    job.complete()
    words = ["io500", f"{job.scratch}/{CONFIG}"]
    results = {"resultdir": f"{job.scratch}/{RESULTS}", "dataPacketType": "incompressible"}
    # A folder below the trial's own: it removes its folder of data at the end.
    config = format_.ini(settings(job.trial, f"{job.place}/data", {"global": results}))
    return [
        Step(
            "io500",
            launched(workers, words),
            workers=workers,
            durable=True,
            environment=ENVIRONMENT,
            result=f"{RESULTS}/result.txt",
            inputs={CONFIG: config},
            folder=RESULTS,
            several=True,
        )
    ]


def settings(
    trial: Mapping[str, object], place: str, more: Mapping[str, Mapping[str, str]] | None = None
) -> format_.Settings:
    """Return IO500's settings for a trial of the workload `io500` that runs in `place`."""
    files = {"n": str(trial["files_per_worker"])}
    drop = {"drop-caches": "TRUE", "drop-caches-cmd": DROP} if trial["names"] == "cold" else {}
    both = {"timestamp-datadir": "FALSE", "timestamp-resultdir": "FALSE"}
    sections: dict[str, dict[str, str]] = {
        "global": {"datadir": place, **both, **drop},
        "debug": {"stonewall-time": str(int(float(str(trial["phase_deadline"]))))},
        "ior-easy": {
            "transferSize": str(trial["transfer_size"]),
            "blockSize": str(trial["block_size"]),
        },
        "mdtest-easy": files,
        "ior-hard": {"segmentCount": str(trial["segments"])},
        "mdtest-hard": files,
    }
    for section, own in (more or {}).items():
        sections[section] = {**sections.get(section, {}), **own}
    return format_.settings(sections)


# What it writes.

TESTS = tuple(dict.fromkeys(test for test, _ in PHASES.values()))
LINE = re.compile(
    r"^\[RESULT *(-invalid)?\]\s+(?:(?:BW|IOPS)\s+phase\s+\d+\s+)?([a-z_-]{1,40})"
    r"\s+(\S{1,40})\s+(\S{1,10}) *: *time +(\S{1,40}) seconds *(\[INVALID\])?",
    re.MULTILINE,
)
SCORE = re.compile(
    r"^\[SCORE *(-invalid)?\] Bandwidth (\S{1,40}) G\S*/s : IOPS (\S{1,40}) kiops : "
    r"TOTAL (\S{1,40}) *(\[INVALID\])?",
    re.MULTILINE,
)
# What six significant digits cannot show, beside the rounding of the phases themselves.
AGREE = 1e-5


@dataclass
class Result:
    """What a file says, whichever it is."""

    rates: dict[str, float] = field(default_factory=dict)  # GiB/s, or thousands per second
    rounding: dict[str, float] = field(default_factory=dict)  # share of the rate
    seconds: dict[str, float] = field(default_factory=dict)
    invalid: dict[str, str] = field(default_factory=dict)  # phase → what IO500 said
    commands: dict[str, str] = field(default_factory=dict)
    score: tuple[float, float, float] | None = None  # bandwidth, rate, total; as printed
    version: str | None = None
    ranks: int | None = None


def recognises(source: Source) -> bool:
    """Whether it has lines of results, or the sections of result.txt."""
    if LINE.search(source.text):
        return True
    return ("[run]" in source.text and "config-hash" in source.text) or "[ior-easy-" in source.text


def read(source: Source) -> Result:
    """Return what a file says, by IO500's own names."""
    return _of_summary(source) if LINE.search(source.text) else _of_result(source)


def parse(source: Source) -> Imported:
    """Return an entry per test (ior-easy, mdtest-hard, …); one without a result has failed."""
    result = read(source)
    about = {"tool": NAME, "tool_version": result.version, **_validity(result)}
    entries = [_entry(source, result, test, about) for test in TESTS]
    identity = ",".join(f"{result.rates[name]:.3f}" for name in PHASES if name in result.rates)
    return Imported(
        entries=entries,
        identity=f"io500 {identity}" if identity else "",
    )


def live(source: Source) -> list[Json]:
    """Return the phases of a run that has just ended, by IO500's own names; all twelve, or fail.

    What it says against a phase becomes its `invalid`; what it says against the run is that of
    the first.
    """
    result = read(source)
    absent = [name for name in PHASES if name not in result.rates]
    if absent:
        message = f"IO500 ended without a result of {', '.join(absent)}"
        raise SavemarkError("failed", message, str(source.path))
    whole_run = {place: why for place, why in result.invalid.items() if place not in PHASES}
    whole_run.pop("the score", None)  # follows from the others
    phases: list[Json] = []
    for name in PHASES:
        rate, seconds = result.rates[name], result.seconds[name]
        bandwidth = name.startswith("ior")
        broken = [result.invalid[name]] if name in result.invalid else []
        phases.append({
            "name": name,
            "elapsed_ns": round(seconds * NS_PER_S),
            "user_bytes": (times(rate * seconds, GIB) or 0) if bandwidth else 0,
            "operations": None if bandwidth else round(rate * 1000 * seconds),
            "invalid": [*(whole_run.values() if not phases else ()), *broken],
            "tool_version": result.version,
        })  # fmt: skip
    return phases


def _entry(source: Source, found: Result, test: str, about: Json) -> Json:
    factors: Json = {"test": test} | ({"ranks": found.ranks} if found.ranks else {})
    head = {"role": "trial", "name": NAME, "factors": factors}
    mine = [name for name, (of, _) in PHASES.items() if of == test]
    phases = [_phase(found, name) for name in mine if name in found.rates]
    if not phases:
        message = f"{source.path.name}: IO500 ended before {test} had a result"
        return {**head, "error": {"kind": "failed", "message": message, "hint": None}}
    wrong = _arithmetic(found)
    command = next((found.commands[name] for name in mine if name in found.commands), None)
    record = {
        "trial": {"workload": "metadata"} if test.startswith("md") else {},
        "source": {**about, "command": command},
        "phases": [{**phase, "arithmetic": wrong} for phase in phases],
    }
    return {**head, "record": record}


def _phase(found: Result, name: str) -> Json:
    rate, seconds = found.rates[name], found.seconds[name]
    phase: Json = {
        "name": PHASES[name][1],
        "time_base": "wall",
        "elapsed_ns": round(seconds * NS_PER_S),
        "worker_count": found.ranks,
    }
    if name.startswith("ior"):
        moved = times(rate * seconds, GIB)
        phase |= {"user_bytes": moved, "stored_bytes": moved, "reported_bytes_per_s": rate * GIB}
        if name.endswith("write"):
            # IO500's rules: persistent before the close, and -e is always given.
            phase["contract"] = "end"
        else:
            phase["shifted"] = True  # -C -Q 1: read by another rank, one node away
    else:
        phase |= {"operations": round(rate * 1000 * seconds), "reported_ops_per_s": rate * 1000}
    return phase


def _validity(result: Result) -> Json:
    if result.invalid:
        name, rule = next(iter(result.invalid.items()))
        return {"valid": False, "message": f"IO500 [INVALID] {name}: {rule}"}
    return {"valid": True if result.score else None}


def _arithmetic(found: Result) -> str | None:
    """Return how the printed score differs from that of the phases; None where it does not."""
    again = recomputed(found.rates)
    if found.score is None or again is None:
        return None
    unsure = AGREE + sum(found.rounding[name] for name in PHASES) / 4
    parts = zip(("bandwidth", "rate", "score"), found.score, again, strict=True)
    for what, printed, computed in parts:
        if abs(printed - computed) > unsure * computed:
            return f"the printed {what} is {printed:g}, its phases come to {computed:g}"
    return None


def _of_summary(source: Source) -> Result:
    version = re.search(r"^IO500 version (\S{1,60})", source.text, re.MULTILINE)
    result = Result(version=version[1] if version else None)
    for bad, name, rate, _, seconds, worse in LINE.findall(source.text):
        plain = name.replace("_", "-")
        if plain in PHASES:
            _add(source, result, plain, (rate, seconds))
            if bad or worse:
                result.invalid[plain] = "no reason is given"
    score = SCORE.search(source.text)
    if score:
        _scored(result, score.group(2, 3, 4), bool(score[1] or score[5]))
    return result


def _of_result(source: Source) -> Result:
    result, section = Result(), "run"
    values: dict[str, dict[str, str]] = {}
    for line in source.lines:
        name = re.match(r"\[([A-Za-z0-9-]{1,40})\]", line)
        if name:
            section = name[1]
        elif line.startswith("; ERROR INVALID"):
            result.invalid.setdefault(section, line.removeprefix("; ERROR INVALID").strip())
        else:
            key, equals, value = line.partition("=")
            if equals:
                values.setdefault(section, {})[key.strip()] = value.strip()
    run = values.get("run", {})
    result.version, result.ranks = run.get("version"), whole(run.get("procs", ""))
    for phase, own in values.items():
        if phase in PHASES and "score" in own:
            _add(
                source,
                result,
                phase,
                (own["score"].split()[0] if own["score"] else "", own.get("t_delta", "")),
            )
            result.commands[phase] = own.get("exe", "")
            if "[INVALID]" in own["score"]:
                result.invalid.setdefault(phase, "no reason is given")
    end = values.get("SCORE", {})
    if end:
        words = [(end.get(key, "").split() or [""])[0] for key in ("BW", "MD", "SCORE")]
        _scored(result, words, "[INVALID]" in end.get("SCORE", ""))
    return result


def _add(source: Source, found: Result, name: str, words: tuple[str, str]) -> None:
    rate, seconds = (number(word) for word in words)
    if rate is None or seconds is None or rate < 0 or seconds < 0:
        raise usage(
            f"{source.path}: {name}: {words[0]} in {words[1]} s is no result", "it is damaged"
        )
    if seconds > 0:  # 0: the phase was left out
        found.rates[name], found.seconds[name] = rate, seconds
        digits = len(words[0].partition(".")[2])
        found.rounding[name] = 0.5 / 10**digits / rate if rate else 0.0


def _scored(found: Result, words: tuple[str, ...] | list[str], invalid: bool) -> None:
    numbers = [number(word) for word in words]
    if None not in numbers:
        bandwidth, rate, total = (float(value or 0) for value in numbers)
        found.score = bandwidth, rate, total
    if invalid:
        found.invalid.setdefault("the score", "no reason is given")
