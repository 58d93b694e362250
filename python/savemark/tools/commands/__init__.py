"""How to run each foreign tool: one file per tool, which turns a trial into its command lines.

A file has `NAME`, `VERSION` (the words that make the tool print it), `TARGETS` ("directory" and
"url": what it can measure) and `steps(job)`: exact, or `Inexpressible`, which names the option
and says why the tool cannot do it. What a tool prints is read by `savemark.tools.NAME`, where there
is one; a tool that prints nothing is timed as a process.
"""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, cast

from savemark.errors import Inexpressible, did_you_mean, usage
from savemark.tools import ENGINE
from savemark.tools.commands.job import Job, Step

RUNNABLE = (
    "fio",
    "elbencho",
    "ior",
    "mdtest",
    "io500",
    "iozone",
    "aws",
    "s5cmd",
    "rclone",
    "warp",
    "dd",
)


class Command(Protocol):
    """What each file of this folder is."""

    NAME: str
    VERSION: tuple[str, ...]
    TARGETS: tuple[str, ...]

    def steps(self, job: Job) -> list[Step]:
        """Return what to run, in order; `Inexpressible` where the tool cannot do the trial."""


def command(name: str) -> Command:
    """Return the tool of this name."""
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
