"""The types of a phase: times, bytes, and what the machine counted. Units as in a record."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from savemark import limits
from savemark.records.fields import Amount, Amounts, Label, Number, Part, Text, Texts


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
    bytes: Amounts = field(default_factory=list)


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
    stages: Annotated[list[Stage], Meta(max_length=limits.MOST_ITEMS)] = field(default_factory=list)
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
    workers: Annotated[list[Worker], Meta(max_length=limits.MOST_ITEMS)] = field(
        default_factory=list
    )
    notes: Texts = field(default_factory=list)

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
