"""The types of `run.json`: what was asked for, where, and what the plan is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, convert, field

from savemark import limits
from savemark.records.fields import (
    Amount,
    Factors,
    Label,
    Level,
    Number,
    Options,
    Part,
    Text,
    Texts,
)
from savemark.records.record import Planned

# The size of a filesystem: buckets that are mounted claim up to 2^64 bytes.
Room = Annotated[int, Meta(ge=0)]
Levels = dict[Label, Annotated[list[Level], Meta(max_length=limits.MOST_ITEMS)]]


class Missing(Part, omit_defaults=False):
    """Levels that cannot be measured here, and why."""

    rule: Options
    reason: Text = ""
    hint: Text | None = None
    cells: Amount = 0  # that this leaves out


class StudyPart(Part):
    """One of several workloads of a study: what it has over the whole."""

    trial: Options = {}
    factors: Levels = {}


class RaceRules(Part):
    """How a race looks for the best setting."""

    baseline: Options = {}
    keep: Number | None = None
    finalists: Amount | None = None


class Study(Part):
    """The study as it was resolved."""

    name: Text = ""
    title: Text = ""
    order: Text = "not recorded"
    repeats: Amount | None = None
    until: Number | None = None  # a share: repeat until each median is known to it,
    max_repeats: Amount | None = None  # and no more often than that
    most_trials: Amount | None = None  # so many of the settings were drawn
    trial: Options = {}
    defaults: Options = {}
    factors: Levels = {}
    parts: dict[str, StudyPart] = {}
    ceilings: dict[str, Options] = {}
    checks: dict[str, dict[str, Number | None]] = {}  # id → limit → value
    exclude: list[Options] = []
    missing: list[Missing] = []
    buckets: list[Label] = []
    expect: Texts = []
    mounts: list[dict[str, Text | None]] = []
    race: RaceRules | None = None

    def own(self, factors: Mapping[str, Any]) -> Options:
        """Return the options that all trials of a setting's part have."""
        part = self.parts.get(str(factors.get("part")), StudyPart())
        return {**self.trial, **part.trial}


class Cpu(Part):
    """The processors."""

    model: Text | None = None
    logical: Amount | None = None
    available: Amount | None = None  # to this process
    cores: Amount | None = None


class Memory(Part):
    """The machine's memory."""

    total_bytes: Amount | None = None
    available_bytes: Amount | None = None
    # To whom the kernel gives huge pages: always, madvise or never.
    transparent_hugepages: Text | None = None


class HostLimits(Part):
    """What the control group allows."""

    cgroup_cpus: Number | None = None


class Link(Part):
    """The PCIe link of a GPU."""

    bytes_per_s: Number | None = None
    generation_max: Amount | None = None
    width_max: Amount | None = None  # lanes


class Gpu(Part):
    """A GPU."""

    pci_address: Text | None = None
    pcie: Link | None = None
    to_disk: Text | None = None  # what is between them


class Disk(Part):
    """The disk under a target."""

    name: Text | None = None


class Place(Part):
    """The filesystem of a target."""

    filesystem: Text | None = None
    total_bytes: Room | None = None
    free_bytes: Room | None = None
    disk: Disk | None = None


class Host(Part):
    """What is computed from of the machine; a report shows whatever else is recorded of it."""

    hostname: Text | None = None
    kernel_release: Text | None = None
    numa_nodes: Amount | None = None
    cpu: Cpu = field(default_factory=Cpu)
    memory: Memory = field(default_factory=Memory)
    limits: HostLimits = field(default_factory=HostLimits)
    libraries: Texts = []
    gpus: list[Gpu] = []
    target: Place | None = None


class Target(Part, kw_only=False):
    """A place that was measured, and the short name it goes by."""

    label: Label
    target: Label
    facts: dict[str, Any] = {}  # its filesystem and disk, where they were recorded


class SourceFile(Part):
    """A file that a run was imported from."""

    file: Text | None = None
    sha256: Text | None = None
    bytes: Amount | None = None
    format: Text | None = None
    label: Text | None = None


class Contender(Part):
    """One setting of a race: why it was left out, or what its short trial took."""

    factors: Factors
    seconds: Number | None = None
    stored_share: Number | None = None
    kept: bool | None = None
    why: Text | None = None


class Rest(Part):
    """Whether the disk was at rest before the race."""

    quiet: bool | None = None
    disturbed_by: Text | None = None


class Race(Part):
    """What a race looked at, screened, left out and confirmed."""

    rest: Rest = field(default_factory=Rest)
    bounded: list[Contender] = []
    screened: list[Contender] = []
    finalists: list[Factors] = []
    cores: Amount | None = None
    screen_bytes: Amount | None = None  # of a short trial
    size_bytes: Amount | None = None  # of one that counts


class Head(Part):
    """`run.json`."""

    schema: Any = 1
    run_id: Label = ""
    savemark_version: Label = "unknown"
    started_at: Label = ""
    origin: Label = "live"
    command: Texts = []
    study: Study = field(default_factory=Study)
    host: dict[str, Any] = {}  # all that is recorded of it; `Host` is what is computed from
    targets: list[Target] = []
    order_seed: Amount | None = None
    plan: list[Planned] = []
    sources: list[SourceFile] = []
    race: Race | None = None

    @property
    def machine(self) -> Host:
        """What is computed from of the host."""
        return convert(self.host, Host)
