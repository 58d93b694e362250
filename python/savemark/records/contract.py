"""What two runs must share before their times may be compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from savemark.records.run import Entry, Json, Run

# Kinds of difference, the gravest first.
CONTRACT, HOST, VERSION, OPTION = "contract", "host", "version", "option"
# Options that say what is measured; the others say how.
PROMISES = ("workload", "size", "payload", "sync", "cache")
# Not the same in any two runs.
OWN = ("target", "seed", "state")


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact that is not the same in two runs."""

    kind: str
    what: str
    base: str
    other: str

    def as_json(self) -> dict[str, str]:
        """Return the form under `--json`."""
        return {"kind": self.kind, "what": self.what, "base": self.base, "other": self.other}


def differences(base: Run, other: Run) -> list[Difference]:
    """Return what is not the same in two runs, the gravest first.

    `contract`: size, payload, storage path, direct, durable, verified, cache state: different work
    or different promises. `host` and `version`: where, and by what. `option`: anything else that
    the trials were told, unless one of the runs varies it as a factor.
    """
    facts = [dict(_facts(run, _varied(base) | _varied(other))) for run in (base, other)]
    found = []
    for kind in (CONTRACT, HOST, VERSION, OPTION):
        names = dict.fromkeys(name for each in facts for name in each if name[0] == kind)
        for name in names:
            a, b = (_text(each.get(name)) for each in facts)
            if a != b:
                found.append(Difference(kind, name[1], a, b))
    return found


def _varied(run: Run) -> set[str]:
    return {name for entry in run.entries for name in entry.factors}


def _facts(run: Run, varied: set[str]) -> Iterator[tuple[tuple[str, str], set[Any]]]:
    trials = [entry for entry in run.entries if entry.role == "trial" and entry.ok]
    yield from _options(trials, varied)
    for name in ("storage", "direct", "filesystem"):
        values = {((entry.record or {}).get("path") or {}).get(name) for entry in trials}
        known = {"storage": "storage path", "direct": "direct I/O"}
        yield (CONTRACT, known.get(name, name)), values
    phases = [phase for entry in trials for phase in entry.phases]
    for phase in dict.fromkeys(phase["name"] for phase in phases):
        mine = [each for each in phases if each["name"] == phase]
        for name in ("durable", "verified"):
            yield (CONTRACT, f"{phase} {name}"), {each.get(name) for each in mine}
        states = {(each.get("cache") or {}).get("state") for each in mine}
        yield (CONTRACT, f"{phase} cache"), states
    yield from _machine(run)


def _options(trials: list[Entry], varied: set[str]) -> Iterator[tuple[tuple[str, str], set[Any]]]:
    told: list[Json] = [(entry.record or {}).get("trial") or {} for entry in trials]
    for name in dict.fromkeys(name for trial in told for name in trial):
        if name not in varied and name not in OWN and name != "storage":
            kind = CONTRACT if name in PROMISES else OPTION
            yield (kind, name.replace("_", " ")), {_plain(trial.get(name)) for trial in told}


def _machine(run: Run) -> Iterator[tuple[tuple[str, str], set[Any]]]:
    host = run.host
    cpu, memory = host.get("cpu") or {}, host.get("memory") or {}
    yield (HOST, "host name"), {host.get("hostname")}
    yield (HOST, "processor"), {cpu.get("model")}
    yield (HOST, "usable cores"), {cpu.get("available") or cpu.get("logical")}
    yield (HOST, "memory bytes"), {memory.get("total_bytes")}
    yield (HOST, "kernel"), {host.get("kernel_release")}
    disk = ((host.get("target") or {}).get("disk") or {}).get("name")
    yield (HOST, "disk"), {disk}
    yield (VERSION, "savemark"), {run.version}
    yield (VERSION, "libraries"), {", ".join(host.get("libraries") or []) or None}


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def _text(values: set[Any] | None) -> str:
    words = {True: "yes", False: "no", None: "not recorded"}
    if not values:
        return "not recorded"
    # By type too: 1 == True would take the word of the other.
    texts = [words[v] if v is None or isinstance(v, bool) else str(v) for v in values]
    return ", ".join(sorted(texts))
