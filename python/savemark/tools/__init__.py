"""One file per foreign tool: how it is run, and how what it wrote is read.

A tool that can be run has `NAME`, `VERSION` (the words that make the tool print it), `TARGETS`
("directory" and "url": what it can measure) and `steps(job)`: exact, or `Inexpressible`, which
names the option and says why the tool cannot do it. One without a reader is timed as a process.

A tool whose results can be read has `NAME`, `WHAT` (what it reads, in a few words),
`recognises(source)`, which looks at the content (a name proves nothing), and `parse(source)`, which
returns an `Imported`: lenient about junk around the data, strict about the data. What is missing
stays missing, and what is damaged is a usage error that names the file.
"""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from savemark.errors import Inexpressible, did_you_mean, usage
from savemark.tools.job import Job, Step

if TYPE_CHECKING:
    from savemark.records.imported import Imported
    from savemark.tools.source import Source

# The tool of trials that run on our own engine.
ENGINE = "savemark"
# Those that can be run.
RUNNABLE = (
    *("fio", "elbencho", "ior", "mdtest", "io500", "iozone", "aws", "s5cmd", "rclone", "warp"),
    "dd",
)
# In this order a file is offered to them, so one that is sure of its own comes first.
NAMES = (
    *("fio", "io500", "mdtest", "ior", "elbencho", "iozone", "warp", "gdsio", "nixlbench"),
    *("dlio", "github_benchmark", "hyperfine", "s5cmd", "aws"),
)


class Command(Protocol):
    """A file of this folder whose tool can be run."""

    NAME: str
    VERSION: tuple[str, ...]
    TARGETS: tuple[str, ...]

    def steps(self, job: Job) -> list[Step]:
        """Return what to run, in order; `Inexpressible` where the tool cannot do the trial."""


class Tool(Protocol):
    """A file of this folder that reads what its tool wrote."""

    NAME: str
    WHAT: str

    def recognises(self, source: Source) -> bool:
        """Whether the content is this tool's."""

    def parse(self, source: Source) -> Imported:
        """Return what the file says; a usage error where it is damaged."""


def tool(name: str) -> Tool:
    """Return the tool of this name; only that one is imported."""
    return cast(Tool, importlib.import_module(f"{__name__}.{name}"))


def tools() -> dict[str, Tool]:
    """Return all tools whose results can be read, by name."""
    return {name: tool(name) for name in NAMES}


def command(name: str) -> Command:
    """Return the tool of this name that can be run."""
    if name not in RUNNABLE:
        raise usage(f"tool: `{name}` is not known", did_you_mean(name, [ENGINE, *RUNNABLE]))
    return cast(Command, importlib.import_module(f"{__name__}.{name}"))


def installed() -> list[str]:
    """Return the tools that are on PATH."""
    return [name for name in RUNNABLE if shutil.which(name)]


def require(names: Iterable[str]) -> None:
    """Refuse, as a usage error, a tool that is not on PATH."""
    here = installed()
    for name in names:
        if command(name).NAME not in here:
            raise usage(f"{name} is not on PATH", f"here are: {', '.join(here) or 'none'}")


def check(trial: Mapping[str, Any], place: str) -> None:
    """Refuse, as inexpressible, a trial that its tool cannot do on `place`."""
    tool = command(str(trial["tool"]))
    if trial["storage"] in ("null", "memory"):
        why = "it is inside savemark"
        hint = "use --storage posix, or leave it out"
        raise Inexpressible(f"{tool.NAME} cannot express storage={trial['storage']}: {why}", hint)
    kind = "url" if "://" in place else "directory"
    if kind not in tool.TARGETS:
        other = "a directory" if kind == "url" else "a bucket, such as s3://bucket/prefix"
        raise Inexpressible(f"{tool.NAME} cannot measure {place}", f"give it {other}")
    tool.steps(Job.sketch(trial, place))
