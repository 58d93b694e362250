"""The types of a record: what a finished trial left behind, whoever ran it.

The engine writes records (`savemark schema --records` says what each of its fields means), the
readers of other tools' files make some, and a run adds what it saw around a trial. Units are base
units and the end of the name: `_ns`, `_bytes`, `_per_s`. None is unknown. Fields that are not here
are a newer version's, or nobody's: they are passed over.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, field

from savemark import limits
from savemark.records.fields import Amount, Factors, Label, Number, Options, Part, Text, Texts
from savemark.records.phase import Phase

# The workload of a trial that measures a place by itself.
PROBE = "probe"


class PathTaken(Part):
    """The path that the bytes really took."""

    storage: Text | None = None
    direct: bool | None = None
    fixed_buffers: bool | None = None
    registered_files: bool | None = None
    alignment_bytes: Amount | None = None
    filesystem: Text | None = None
    client_threads: Amount | None = None
    notes: Texts = []


class Interposed(Part):
    """A call of the C library that another library answers."""

    function: Text
    library: Text


class Limits(Part):
    """What the control group allows."""

    read_bytes_per_s: Amount | None = None
    write_bytes_per_s: Amount | None = None
    read_ops_per_s: Amount | None = None
    write_ops_per_s: Amount | None = None
    cpus: Number | None = None


class Mount(Part, rename={"kind": "class"}):
    """The filesystem of the target."""

    filesystem: Text | None = None
    source: Text | None = None
    options: Text | None = None
    kind: Text | None = None


class Conditions(Part):
    """What stood between the engine and the storage."""

    clock_tick_ns: Amount | None = None
    memory_bytes: Amount | None = None
    interposed: Annotated[list[Interposed], Meta(max_length=limits.MOST_ITEMS)] | None = None
    traced: bool | None = None
    limits: Limits = field(default_factory=Limits)
    mount: Mount | None = None
    write_cache: Text | None = None


class ToolRun(Part):
    """A process that moved the bytes of a phase, with what it reported."""

    command: Texts
    phase: Text | None = None
    exit_status: int | None = None
    elapsed_ns: Amount | None = None
    file: Text | None = None
    bytes: Amount | None = None
    sha256: Text | None = None


class ToolUsed(Part):
    """The program that moved the bytes instead of the engine."""

    name: Label
    version: Label | None = None
    command: Text | None = None
    process_ns: Amount | None = None  # to start and end without work
    runs: Annotated[list[ToolRun], Meta(max_length=limits.MOST_ITEMS)] = []


class Source(Part):
    """Where an imported record is from."""

    origin: Text | None = None
    tool: Text | None = None
    tool_version: Text | None = None
    command: Text | None = None
    sha256: Text | None = None  # of the file that was read
    file: Text | None = None
    place: Text | None = None  # the directory that was measured
    timer_resolution_ns: Amount | None = None
    client_memory_bytes: Amount | None = None
    valid: bool | None = None
    message: Text | None = None  # why it is not valid


class Record(Part):
    """One finished trial."""

    schema: Any = 1  # the version that it was written in: see `versions`
    trial: Options = {}  # every option as it was resolved, defaults included
    started_unix_ns: Amount | None = None  # for reading, never for subtracting
    finished_unix_ns: Amount | None = None
    elapsed_ns: Amount | None = None  # preparation and cleanup included
    path: PathTaken = field(default_factory=PathTaken)
    buffer_bytes: Amount | None = None
    conditions: Conditions = field(default_factory=Conditions)
    phases: Annotated[list[Phase], Meta(max_length=limits.MOST_ITEMS)] = []
    nodes: Annotated[list[Label], Meta(max_length=limits.MOST_ITEMS)] = []  # their names
    tool: ToolUsed | None = None
    source: Source | None = None
    # The same facts as `source` and `tool` have; importers may state them here.
    origin: Text | None = None
    source_sha256: Text | None = None
    timer_resolution_ns: Amount | None = None


class Error(Part):
    """Why a trial failed."""

    kind: Text | None = None
    message: Text | None = None
    hint: Text | None = None


class Trial(Part):
    """A trial of an imported file."""

    role: Label
    name: Label
    factors: Factors = {}
    repeat: Amount | None = None  # where the file numbers its runs
    record: Record | None = None
    error: Error | None = None

    @property
    def is_probe(self) -> bool:
        """Whether it measures a place by itself: beside trials, it is their ceiling."""
        return self.record is not None and self.record.trial.get("workload") == PROBE


class Planned(Part, omit_defaults=False):
    """A trial of the plan."""

    index: Amount
    role: Label
    name: Label
    label: Label = ""
    repeat: Amount = 0
    factors: Factors = {}


class Line(Planned, omit_defaults=False):
    """A line of `records.jsonl`: a trial that ended, with its record or its error."""

    status: Label = "planned"
    record: Record | None = None
    error: Error | None = None
