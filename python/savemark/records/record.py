"""The types of a record: what a finished trial left behind, whoever ran it.

The engine writes records (`savemark schema --records` says what each of its fields means), the
readers of other tools' files make some, and a run adds what it saw around a trial. Units are base
units and the end of the name: `_ns`, `_bytes`, `_per_s`. None is unknown. Fields that are not here
are a newer version's, or nobody's: they are passed over.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from savemark import limits

MOST = 2**63 - 1  # a column holds no more
Amount = Annotated[int, Meta(ge=0, le=MOST)]
Number = Annotated[float, Meta(ge=0, lt=float(2**63))]
Text = Annotated[str, Meta(max_length=limits.LONGEST_MESSAGE)]
Label = Annotated[str, Meta(max_length=limits.LONGEST_TEXT)]
_Whole = Annotated[int, Meta(ge=-MOST, le=MOST)]
_Real = Annotated[float, Meta(gt=-float(2**63), lt=float(2**63))]
# A level of a factor, and the factors of a setting.
Level = bool | _Whole | _Real | Label | None
Factors = dict[Label, Level]
# An option of a trial. Which there are is the engine's to say: `savemark schema`.
Option = (
    bool
    | _Whole
    | _Real
    | Text
    | None
    | Annotated[list[bool | _Whole | _Real | Text], Meta(max_length=limits.MOST_ITEMS)]
)
Options = dict[str, Option]
Amounts = Annotated[list[Amount], Meta(max_length=limits.MOST_ITEMS)]
Texts = Annotated[list[Text], Meta(max_length=limits.MOST_ITEMS)]


# The workload of a trial that measures a place by itself.
PROBE = "probe"


class Part(Struct, kw_only=True, omit_defaults=True, gc=False):
    """A part of what is stored. No part holds itself, so none needs the cyclic collector."""


class Stage(Part):
    """A span of a phase's wall time."""

    name: Label
    elapsed_ns: Amount


class ThreadTime(Part):
    """Thread time by what it went to, summed over the workers."""

    codec_ns: Amount | None = None
    digest_ns: Amount | None = None
    wait_ns: Amount | None = None
    compute_ns: Amount | None = None
    write_ns: Amount | None = None
    sync_ns: Amount | None = None


class Latency(Part):
    """A distribution of latencies."""

    count: Amount | None = None
    min_ns: Amount | None = None
    mean_ns: Amount | None = None
    p50_ns: Amount | None = None
    p90_ns: Amount | None = None
    p99_ns: Amount | None = None
    p99_9_ns: Amount | None = None
    p99_99_ns: Amount | None = None
    max_ns: Amount | None = None


class Share(Part):
    """The reads or the writes of a mix."""

    operations: Amount | None = None
    bytes: Amount | None = None
    latency: Latency | None = None


class Slip(Part):
    """How far behind its schedule an open loop was."""

    due: Amount | None = None
    started: Amount | None = None
    late: Amount | None = None
    late_after_ns: Amount | None = None
    mean_ns: Amount | None = None
    p99_ns: Amount | None = None
    max_ns: Amount | None = None


class Timeline(Part):
    """Bytes completed in each interval since the start barrier."""

    interval_ns: Amount = 0
    bytes: Amounts = []


class Device(Part):
    """What the block device saw."""

    name: Text | None = None
    reads: Amount | None = None
    read_bytes: Amount | None = None
    writes: Amount | None = None
    written_bytes: Amount | None = None
    flushes: Amount | None = None


class Machine(Part):
    """What the processors did."""

    elapsed_ns: Amount | None = None
    cpus: Amount | None = None
    busy_ns: Amount | None = None
    own_ns: Amount | None = None
    steal_ns: Amount | None = None
    throttled_ns: Amount | None = None
    thermal_throttles: Amount | None = None


class CuFile(Part):
    """cuFile's own counts: bytes, and transfers by the way that they took."""

    read_bytes: Amount | None = None
    written_bytes: Amount | None = None
    nvidia_fs: Amount | None = None
    peer_to_peer: Amount | None = None
    posix: Amount | None = None


class Cache(Part):
    """Page-cache residency of the files."""

    state: Text | None = None  # cold, warm, mixed, none (no page cache), dropped or unknown
    resident_pages: Amount | None = None
    total_pages: Amount | None = None
    method: Text | None = None


class Extents(Part):
    """Where the bytes of the files lie."""

    bytes: Amount | None = None
    hole_bytes: Amount | None = None
    unwritten_bytes: Amount | None = None
    method: Text | None = None


class Payload(Part):
    """What a sample of the written bytes looks like."""

    sampled_bytes: Amount | None = None
    zero_share: Number | None = None
    repeated_share: Number | None = None
    entropy_bits: Number | None = None  # per byte, 0 to 8
    method: Text | None = None


class CriuStats(Part):
    """CRIU's own account."""

    freezing_ns: Amount | None = None
    frozen_ns: Amount | None = None
    memory_dump_ns: Amount | None = None
    memory_write_ns: Amount | None = None
    forking_ns: Amount | None = None
    restore_ns: Amount | None = None
    pages: Amount | None = None


class ProcessTimes(Part):
    """Of a program that CRIU saved or restored."""

    criu: Text | None = None  # its version
    mode: Text | None = None
    processes: Amount | None = None
    criu_cpu_ns: Amount | None = None
    program_cpu_ns: Amount | None = None
    first_answer_ns: Amount | None = None
    resident_ns: Amount | None = None
    stats: CriuStats | None = None


class Worker(Part):
    """One worker's share."""

    user_bytes: Amount | None = None
    operations: Amount | None = None
    done_ns: Amount | None = None
    cpu_ns: Amount | None = None


class RankLines(Part):
    """What each rank did, by column; of many ranks the slowest alone, numbered `rank`."""

    of: Amount
    node: Amounts
    last_done_ns: Amounts
    user_bytes: Amounts
    operations: Amounts
    first_done_ns: Amounts | None = None
    started_ns: Amounts | None = None
    rank: Amounts | None = None

    def __post_init__(self) -> None:
        """Refuse columns of different lengths."""
        _same_length(self)


class NodeLines(Part):
    """The same of each node: its ranks added up."""

    of: Amount
    node: Amounts
    ranks: Amounts | None = None
    first_done_ns: Amounts | None = None
    last_done_ns: Amounts | None = None
    user_bytes: Amounts | None = None
    operations: Amounts | None = None
    rank: Amounts | None = None

    def __post_init__(self) -> None:
        """Refuse columns of different lengths."""
        _same_length(self)


def _same_length(lines: RankLines | NodeLines) -> None:
    columns = (getattr(lines, name) for name in lines.__struct_fields__ if name != "of")
    if len({len(column) for column in columns if column is not None}) > 1:
        raise ValueError("columns of different lengths")


class Phase(Part):
    """One phase of a trial. All its times count from its start barrier."""

    name: Label
    prepare_ns: Amount | None = None  # before the start barrier, and not in `elapsed_ns`
    elapsed_ns: Amount | None = None
    first_done_ns: Amount | None = None
    last_done_ns: Amount | None = None
    first_done_bytes: Amount | None = None
    operations: Amount | None = None
    iterations: Amount | None = None
    found: Amount | None = None
    user_bytes: Amount | None = None
    stored_bytes: Amount | None = None
    cpu_user_ns: Amount | None = None
    cpu_system_ns: Amount | None = None
    stages: Annotated[list[Stage], Meta(max_length=limits.MOST_ITEMS)] = []
    thread_time: ThreadTime | None = None
    latency: Latency | None = None
    sync_latency: Latency | None = None
    read: Share | None = None
    write: Share | None = None
    slip: Slip | None = None
    timeline: Timeline | None = None
    device: Device | None = None
    machine: Machine | None = None
    gds_bytes: Amount | None = None
    cufile: CuFile | None = None
    cache: Cache | None = None
    extents: Extents | None = None
    payload: Payload | None = None
    durable: bool | None = None
    verified: Text | None = None
    process: ProcessTimes | None = None
    workers: Annotated[list[Worker], Meta(max_length=limits.MOST_ITEMS)] = []
    notes: Texts = []

    # Until the application goes on, until the bytes are safe, until all is done, until all bytes
    # have come back. The engine states those that its phases do not imply.
    frozen_ns: Amount | None = None
    durable_ns: Amount | None = None
    drained_ns: Amount | None = None
    fetched_ns: Amount | None = None
    stall_ns: Amount | None = None
    durable_bytes: Amount | None = None

    # Of several ranks; and by how much later than the first the last one started, and how true
    # that is.
    ranks: RankLines | None = None
    nodes: NodeLines | None = None
    start_skew_ns: Amount | None = None
    clock_error_ns: Amount | None = None
    # Of a mounted bucket: whether a read found it mounted anew, its cache empty; whether what was
    # written was looked for in the bucket itself.
    past_mount: bool | None = None

    # What a tool says of its phase.
    # What was promised when the clock stopped: none (buffered), each (sync per write), end (one
    # sync at the end, inside the time), group, rename (sync, rename, sync of the directory), shared
    # (one sync for several threads), generations (two files in turn, one sync each), behind
    # (rename, one save later), unknown (the tool does not say).
    contract: Text | None = None
    atomic: bool | None = None  # whether a crash in mid-write leaves the old state whole
    # What `elapsed_ns` is made of: wall, or threads where it is a sum over threads. A time that the
    # tool summed over threads beside its wall time is `thread_io_ns`.
    time_base: Text | None = None
    thread_io_ns: Amount | None = None
    worker_count: Amount | None = None
    transfer_bytes: Amount | None = None
    dataset_bytes: Amount | None = None
    # As printed, in base units: what the arithmetic is checked against.
    reported_bytes_per_s: Number | None = None
    reported_ops_per_s: Number | None = None
    # By a meter that includes write-back: iozone's parent, say.
    outer_elapsed_ns: Amount | None = None
    statistic: Text | None = None  # of several runs: min, max, mean, median; None of one run
    label_conflict: Text | None = None  # the name says s=100, the command -s 1
    arithmetic: Text | None = None  # the printed score is 5, its phases come to 4
    shifted: bool | None = None  # whether another client read than the one that wrote (IOR -C)
    invalid: Texts | None = None  # why the tool calls it invalid; empty: it does not


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
