"""The files that IO500 leaves: result.txt, result_summary.txt and config.ini, as it writes them.

result.txt has checksums of the settings and of the scores, which `io500-verify config.ini
result.txt` computes again. They guard against slips, not against forgers: nothing is secret.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from savemark import files
from savemark.records.fields import Options
from savemark.records.phase import Phase

# Each phase of IO500: the test that it belongs to, and what that phase is called here.
PHASES = {
    "ior-easy-write": ("ior-easy", "write"),
    "mdtest-easy-write": ("mdtest-easy", "create"),
    "ior-hard-write": ("ior-hard", "write"),
    "mdtest-hard-write": ("mdtest-hard", "create"),
    "find": ("find", "find"),
    "ior-easy-read": ("ior-easy", "read"),
    "mdtest-easy-stat": ("mdtest-easy", "stat"),
    "ior-hard-read": ("ior-hard", "read"),
    "mdtest-hard-stat": ("mdtest-hard", "stat"),
    "mdtest-easy-delete": ("mdtest-easy", "remove"),
    "mdtest-hard-read": ("mdtest-hard", "read"),
    "mdtest-hard-delete": ("mdtest-hard", "remove"),
}
# Seconds that each of the four writes has to last.
STONEWALL_S = 300
WRITES = tuple(name for name in PHASES if name.endswith("-write"))
# Bytes of one I/O in the hard part of IOR; those of the easy part can be chosen.
HARD_TRANSFER = 47_008
# Before this phase IO500 writes down the time.
STAMPED = "ior-hard-write"

# Every setting of IO500 with its default: "" is one that it has, None is none.
Settings = dict[str, dict[str, str | None]]
_RUN: dict[str, str | None] = {"run": "TRUE"}
_API: dict[str, str | None] = {"API": None, **_RUN}
_COLLECTIVE: dict[str, str | None] = {"API": None, "collective": None, **_RUN}
_FIND: dict[str, str | None] = {
    "external-script": None,
    "external-mpi-args": "",
    "external-extra-args": "",
    "nproc": None,
    **_RUN,
    "pfind-queue-length": "10000",
    "pfind-steal-next": "FALSE",
    "pfind-parallelize-single-dir-access-using-hashing": "FALSE",
}
DEFAULTS: Settings = {
    "global": {
        "datadir": "./datafiles",
        "timestamp-datadir": "TRUE",
        "resultdir": "./results",
        "timestamp-resultdir": "TRUE",
        "api": "POSIX",
        "drop-caches": "FALSE",
        "drop-caches-cmd": 'sudo -n bash -c "echo 3 > /proc/sys/vm/drop_caches"',
        "io-buffers-on-gpu": "FALSE",
        "verbosity": "1",
        "scc": "FALSE",
        "dataPacketType": "timestamp",
    },
    "debug": {"stonewall-time": str(STONEWALL_S), "pause-dir": None},
    "ior-easy": {
        "API": None,
        "transferSize": "2m",
        "blockSize": "9920000m",
        "filePerProc": "TRUE",
        "uniqueDir": "FALSE",
        **_RUN,
        "verbosity": None,
    },
    "ior-easy-write": _API,
    "mdtest-easy": {"API": None, "n": "1000000", **_RUN},
    "mdtest-easy-write": _API,
    "mdworkbench": {
        "API": None,
        "waitingTime": "0.0",
        "precreatePerSet": None,
        "filesPerProc": None,
        **_RUN,
        "verbosity": None,
    },
    "mdworkbench-create": _RUN,
    "timestamp": {},
    "find-easy": _FIND,
    "ior-hard": {
        "API": None,
        "segmentCount": "10000000",
        "collective": None,
        **_RUN,
        "verbosity": None,
    },
    "ior-hard-write": _COLLECTIVE,
    "mdtest-hard": {"API": None, "n": "1000000", "files-per-dir": None, **_RUN},
    "mdtest-hard-write": _API,
    "find": _FIND,
    "find-hard": _FIND,
    "mdworkbench-bench": _RUN,
    "ior-easy-read": _API,
    "mdtest-easy-stat": _API,
    "ior-hard-read": _COLLECTIVE,
    "mdtest-hard-stat": _API,
    "mdworkbench-delete": _RUN,
    "mdtest-easy-delete": _API,
    "mdtest-hard-read": _API,
    "mdtest-hard-delete": _API,
    "ior-rnd4K-easy-read": _API,
}


# Said of what is a measurement all the same: of a phase that was too short, or in memory.
MILD = re.compile(r"stonewall|minimum runtime|the rules ask for|not on stable storage")


def against(phase: Phase, trial: Options) -> list[str]:
    """Return why a phase of the workload `io500` is invalid by IO500's rules.

    Of IO500's own program it is what that reported; what is wrong with the run stands in its first.
    """
    if phase.invalid is not None:
        return list(phase.invalid)
    name, seconds = phase.name, (phase.elapsed_ns or 0) / 1e9
    reasons = _against_run(trial) if name == next(iter(PHASES)) else []
    if name in WRITES and seconds < STONEWALL_S:
        reasons.append(f"it took {seconds:.1f} s, the rules ask for {STONEWALL_S} s")
    if name.startswith("ior") and name in WRITES and not phase.durable:
        reasons.append("the bytes are not on stable storage at its end")
    return reasons


def _against_run(trial: Options) -> list[str]:
    asked = trial.get("phase_deadline")
    deadline = float(asked) if isinstance(asked, int | float) else 0.0
    reasons = []
    if deadline != STONEWALL_S:
        reasons.append(f"phase_deadline is {deadline:g} s, the rules ask for {STONEWALL_S} s")
    if not trial.get("verify"):
        reasons.append("what was read was not compared (verify: false)")
    return reasons


def recomputed(rates: dict[str, float]) -> tuple[float, float, float] | None:
    """Return bandwidth, rate and score of twelve phases; None where one is missing."""
    if any(rates.get(name, 0) <= 0 for name in PHASES):
        return None
    bandwidths = [rate for name, rate in rates.items() if name.startswith("ior")]
    others = [rate for name, rate in rates.items() if not name.startswith("ior")]
    bandwidth, rate = (math.exp(sum(map(math.log, xs)) / len(xs)) for xs in (bandwidths, others))
    return bandwidth, rate, math.sqrt(bandwidth * rate)


@dataclass(frozen=True, slots=True)
class Line:
    """One of the twelve phases."""

    rate: float  # GiB/s, or thousands per second
    seconds: float
    reasons: tuple[str, ...] = ()  # why it is invalid
    more: Mapping[str, str] = field(default_factory=dict)  # what else result.txt has of it


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of IO500, whoever ran it."""

    version: str
    ranks: int
    lines: Mapping[str, Line]  # by IO500's names, in its order
    reasons: tuple[str, ...] = ()  # why the whole is invalid, whatever its phases are

    @property
    def score(self) -> tuple[float, float, float] | None:
        """Bandwidth in GiB/s, rate in thousands per second, and √ of both; None without all."""
        return recomputed({name: line.rate for name, line in self.lines.items()})

    @property
    def why_invalid(self) -> list[str]:
        """Why it is invalid, phase by phase; empty where it is valid."""
        lines = self.lines.items()
        return [*self.reasons, *(f"{name}: {why}" for name, line in lines for why in line.reasons)]

    @property
    def valid(self) -> bool:
        """Whether IO500's rules were kept."""
        return not self.why_invalid


def settings(changed: Mapping[str, Mapping[str, str]]) -> Settings:
    """Return all settings, with some changed: section → name → value."""
    return {name: {**own, **changed.get(name, {})} for name, own in DEFAULTS.items()}


def ini(chosen: Settings) -> str:
    """Return the text of config.ini."""
    parts = []
    for section, own in chosen.items():
        parts += [f"[{section}]", *(f"{name} = {value or ''}" for name, value in own.items()), ""]
    return "\n".join(parts) + "\n"


def write(folder: Path, outcome: Outcome, chosen: Settings, notes: Iterable[str] = ()) -> None:
    """Write the three files into a folder, which is made; `notes` become comments of result.txt."""
    files.folder(folder)
    files.write_text(folder / "config.ini", ini(chosen))
    result = "\n".join(_result(folder, outcome, chosen, notes)) + "\n"
    files.write_text(folder / "result.txt", result)
    files.write_text(folder / "result_summary.txt", "\n".join(_summary(outcome)) + "\n")


def _result(
    folder: Path, outcome: Outcome, chosen: Settings, notes: Iterable[str]
) -> Iterator[str]:
    yield "[run]"
    yield _pair("procs", str(outcome.ranks))
    yield _pair("version", outcome.version)
    yield _pair("config-hash", f"{settings_hash(chosen):X}")
    yield _pair("result-dir", str(folder))
    yield _pair("mode", "standard")
    yield from (f"; {note}" for note in notes)
    yield from (f"; ERROR INVALID {reason}" for reason in outcome.reasons)
    yield ""
    for name, line in outcome.lines.items():
        if name == STAMPED:
            yield from ("", "[timestamp]", _pair("t_delta", "0.0000"))
        yield from ("", f"[{name}]")
        yield from (_pair(key, value) for key, value in line.more.items())
        yield from (f"; ERROR INVALID {reason}" for reason in line.reasons)
        yield _pair("score", f"{line.rate:f}")
        yield _pair("t_delta", f"{line.seconds:.4f}")
    score = outcome.score
    if score is None:
        return
    bandwidth, rate, total = score
    yield from ("", "[SCORE]", _pair("MD", f"{rate:f}"), _pair("BW", f"{bandwidth:f}"))
    yield _pair("SCORE", f"{total:f}{_mark(outcome.valid)}")
    yield _pair("hash", f"{score_hash(outcome):X}")


def _summary(outcome: Outcome) -> Iterator[str]:
    yield f"IO500 version {outcome.version} (standard)"
    for name, line in outcome.lines.items():
        if name == STAMPED:
            yield f"[      ] {'timestamp':>20} {0.0:15f} kIOPS : time {0.0:.3f} seconds"
        unit = "GiB/s" if name.startswith("ior") else "kIOPS"
        rate = f"{line.rate:f}"
        yield (
            f"[RESULT] {name:>20} {rate:>15} {unit} : time {line.seconds:.3f} seconds"
            f"{_mark(not line.reasons)}"
        )
    if outcome.score is not None:
        bandwidth, rate_, total = outcome.score
        yield (
            f"[SCORE ] Bandwidth {bandwidth:f} GiB/s : IOPS {rate_:f} kiops : "
            f"TOTAL {total:f}{_mark(outcome.valid)}"
        )


def _pair(name: str, value: str) -> str:
    return f"{name:<15} = {value}"


def _mark(valid: bool) -> str:
    return "" if valid else " [INVALID]"


# Its checksums: pairs in any order, each turned left by two bits for each character.


def settings_hash(chosen: Settings) -> int:
    """Return the checksum of all settings that have a value."""
    pairs = ((name, value) for own in chosen.values() for name, value in own.items())
    return _hash((name, value) for name, value in pairs if value is not None)


def score_hash(outcome: Outcome) -> int:
    """Return the checksum of version, phases and score; an invalid run has another one."""
    score = outcome.score
    assert score is not None
    bandwidth, rate, total = score
    pairs = [("version", outcome.version), ("BW", f"{bandwidth:f}"), ("MD", f"{rate:f}")]
    pairs += [(name, f"{line.rate:f}") for name, line in outcome.lines.items()]
    pairs.append(("SCORE", f"{total:f}"))
    return _hash(pairs if outcome.valid else [*pairs, ("valid", "NO")])


def _hash(pairs: Iterable[tuple[str, str]]) -> int:
    whole = 0
    for name, value in pairs:
        one = 0
        for byte in (name + value).encode():
            signed = byte - 256 if byte > 127 else byte
            one = ((one << 2 | one >> 30) + signed) & 0xFFFFFFFF
        whole ^= one
    return whole
