"""A trial as a tool is given it, and the command lines that it becomes."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from savemark.errors import Inexpressible

# The file (or object) that `sequential` and `random` read or write, as the engine calls it.
FILE = "savemark-data.bin"
# Who runs it and where; none of the tool's business. Nor is our memory: HC-41 says what tools have.
SETTING = ("tool", "mount_cache", "workload", "storage", "target", "huge_pages")


@dataclass(frozen=True)
class Step:
    """One phase: one process. Bytes and operations are what it is told to move."""

    phase: str  # in our words: write, read, save, restore, create, …
    argv: tuple[str, ...]
    user_bytes: int = 0
    operations: int = 0
    workers: int = 1
    durable: bool = False  # whether all is on stable storage when it ends
    reads: tuple[str, ...] = ()  # files to drop from the page cache before
    writes: tuple[str, ...] = ()  # files to look at afterwards
    environment: Mapping[str, str] = field(default_factory=dict)
    discard: bool = False  # what it prints is the data
    sources: Sequence[str] = ()  # files to copy from, which the runner makes in `Job.outgoing`
    restores: bool = False  # whether it fills `Job.incoming`, to be compared with them
    result: str | None = None  # the file it writes its result to, in the job's scratch folder
    theirs: tuple[str, ...] = ()  # what its own report calls this phase; () times the process
    aws: Mapping[str, object] = field(default_factory=dict)  # its s3 settings, for a file
    cold: bool = False  # inodes and names are dropped before, too (root only)
    inputs: Mapping[str, str] = field(default_factory=dict)  # files to make in the scratch folder
    folder: str | None = None  # there, a folder of results to keep whole
    several: bool = False  # it runs all phases by itself, and its reader's `live` tells them apart


@dataclass(frozen=True)
class Job:
    """One trial of one tool."""

    trial: Mapping[str, Any]  # every option, as the engine resolved it
    place: str  # an empty directory, or URL, of its own
    scratch: str  # a folder for what the tool writes about itself
    source: str  # a folder in memory: data to copy from, and room to copy into
    taken: set[str] = field(default_factory=set)

    @classmethod
    def sketch(cls, trial: Mapping[str, Any], place: str) -> Job:
        """Return a job to look at: its command lines are right, and its folders do not exist."""
        return cls(trial, place, "SCRATCH", "SOURCE")

    @property
    def tool(self) -> str:
        """The name of the tool."""
        return str(self.trial["tool"])

    @property
    def in_bucket(self) -> bool:
        """Whether the place is a URL."""
        return "://" in self.place

    @property
    def outgoing(self) -> str:
        """A folder in memory with the data to copy from."""
        return f"{self.source}/out"

    @property
    def incoming(self) -> str:
        """An empty folder in memory to copy into."""
        return f"{self.source}/in"

    @property
    def file(self) -> str:
        """The file or object that is read or written."""
        return f"{self.place}/{FILE}"

    def take(self, name: str) -> Any:
        """Return an option that the command line expresses; absent options are None."""
        self.taken.add(name)
        return self.trial.get(name)

    def only(self, name: str, value: object, why: str) -> None:
        """Refuse any other value of an option."""
        if self.take(name) != value:
            flag = f"--{name.replace('_', '-')}"
            self.refuse(name, why, f"leave {flag} out" if value is None else _flagged(flag, value))

    def workload(self, *known: str) -> str:
        """Return the workload; refuse those that the tool has not."""
        workload = str(self.trial["workload"])
        if workload not in known:
            raise Inexpressible(
                f"{self.tool} cannot express workload={workload}",
                f"it can: {', '.join(known)}",
            )
        return workload

    def refuse(self, name: str, why: str, hint: str | None = None) -> None:
        """Raise the error of an option that the tool cannot express."""
        value = self.trial.get(name)
        option = f"{name} (left out)" if value is None else f"{name}={_spelt(value)}"
        hint = hint or f"leave {self.tool} out, or exclude this setting for it"
        cannot = f"{self.tool} cannot express"
        raise Inexpressible(f"{cannot} {option}: {why}", hint, f"{cannot} {name}: {why}")

    def one_in_flight(self) -> None:
        """For tools that call read and write: one request in flight per worker."""
        if self.trial.get("storage") != "posix":
            self.only("queue_depth", 1, "it waits for each request")
        self.take("queue_depth")  # of posix it says nothing: that waits for each request, too

    def flushes(self, known: Mapping[str, list[str]]) -> list[str]:
        """Return the words for `sync`; refuse a policy that the tool has not."""
        sync = str(self.take("sync"))
        if sync not in known:
            self.refuse("sync", "it has no such flush", f"use --sync {' or '.join(known)}")
        return known[sync]

    def complete(self) -> None:
        """Refuse what nobody has taken and is not at its default: nothing is left out silently."""
        known = defaults(str(self.trial["workload"]), str(self.trial["storage"]))
        for name, value in self.trial.items():
            if name not in self.taken and name not in SETTING and value != known.get(name):
                default = _spelt(known.get(name))
                flag = name.replace("_", "-")
                hint = f"leave --{flag} out (its default is {default}), or leave {self.tool} out"
                self.refuse(name, "it has no such option", hint)

    def share(self, parts: int, unit: str) -> int:
        """Return the bytes of each of equal parts of the size; refuse one that does not divide."""
        size, unit_bytes = int(self.take("size")), int(self.take(unit))
        if size % (parts * unit_bytes):
            why = f"{parts} equal parts of whole {unit.replace('_', ' ')}s are not that much"
            self.refuse("size", why, f"use a multiple of {parts * unit_bytes}")
        return size // parts

    def own_data(self, *payloads: str) -> None:
        """Refuse a kind of data that the tool cannot make, and data of the user's own."""
        if self.take("payload") not in payloads:
            hint = f"use --payload {payloads[0]}" if payloads else None
            self.refuse("payload", "it makes other data", hint)
        if self.take("state") is not None:
            self.refuse("state", "it makes its own data")


@functools.cache
def _schema() -> dict[str, Any]:
    import savemark._engine as engine

    return dict(json.loads(engine.schema()))


@functools.cache
def defaults(workload: str, storage: str) -> dict[str, Any]:
    """Return the default of every option of a workload on a storage."""
    schema = _schema()
    groups = (schema["common"], schema["workloads"][workload], schema["storages"][storage])
    return {
        name: option.get("default")
        for group in groups
        for name, option in (group.get("properties") or {}).items()
    }


def _flagged(flag: str, value: object) -> str:
    """Say how a value is given: a switch has no word after it."""
    if isinstance(value, bool):
        return f"use {flag}" if value else f"use --no-{flag[2:]}"
    return f"use {flag} {value}"


def _spelt(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
