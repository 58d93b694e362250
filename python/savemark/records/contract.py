"""What two runs must share before their times may be compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from savemark.records.record import Record
from savemark.records.run import Run

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
    records = [record for entry in trials if (record := entry.record)]
    yield from _options(records, varied)
    for name in ("storage", "direct", "filesystem"):
        values = {getattr(record.path, name) for record in records}
        known = {"storage": "storage path", "direct": "direct I/O"}
        yield (CONTRACT, known.get(name, name)), values
    phases = [phase for record in records for phase in record.phases]
    for name in dict.fromkeys(phase.name for phase in phases):
        mine = [phase for phase in phases if phase.name == name]
        yield (CONTRACT, f"{name} durable"), {phase.durable for phase in mine}
        yield (CONTRACT, f"{name} verified"), {phase.verified for phase in mine}
        states = {phase.cache.state if phase.cache else None for phase in mine}
        yield (CONTRACT, f"{name} cache"), states
    yield from _machine(run)


def _options(records: list[Record], varied: set[str]) -> Iterator[tuple[tuple[str, str], set[Any]]]:
    for name in dict.fromkeys(name for record in records for name in record.trial):
        if name not in varied and name not in OWN and name != "storage":
            kind = CONTRACT if name in PROMISES else OPTION
            values = {_plain(record.trial.get(name)) for record in records}
            yield (kind, name.replace("_", " ")), values


def _machine(run: Run) -> Iterator[tuple[tuple[str, str], set[Any]]]:
    host = run.host
    yield (HOST, "host name"), {host.hostname}
    yield (HOST, "processor"), {host.cpu.model}
    yield (HOST, "usable cores"), {host.cpu.available or host.cpu.logical}
    yield (HOST, "memory bytes"), {host.memory.total_bytes}
    yield (HOST, "kernel"), {host.kernel_release}
    disk = host.target.disk if host.target else None
    yield (HOST, "disk"), {disk.name if disk else None}
    yield (VERSION, "savemark"), {run.version}
    yield (VERSION, "libraries"), {", ".join(host.libraries) or None}


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def _text(values: set[Any] | None) -> str:
    words = {True: "yes", False: "no", None: "not recorded"}
    if not values:
        return "not recorded"
    # By type too: 1 == True would take the word of the other.
    texts = [words[v] if v is None or isinstance(v, bool) else str(v) for v in values]
    return ", ".join(sorted(texts))
