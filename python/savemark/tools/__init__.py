"""One file per foreign tool: how to read what it wrote.

A tool is a module with `NAME`, `WHAT` (what it reads, in a few words), `recognises(source)`, which
looks at the content (a name proves nothing), and `parse(source)`, which returns an `Imported`:
lenient about junk around the data, strict about the data. What is missing stays missing, and what
is damaged is a usage error that names the file. How savemark runs a tool is in `commands`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from savemark.records.imported import Imported
    from savemark.tools.source import Source

# The tool of trials that run on our own engine.
ENGINE = "savemark"

# In this order a file is offered to them, so one that is sure of its own comes first.
NAMES = (
    *("fio", "io500", "mdtest", "ior", "elbencho", "iozone", "warp", "gdsio", "nixlbench"),
    *("dlio", "github_benchmark", "hyperfine", "s5cmd", "aws"),
)


class Tool(Protocol):
    """What each file of this folder is."""

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
    """Return all tools by name."""
    return {name: tool(name) for name in NAMES}
