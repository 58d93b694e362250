"""The formats that a file is offered to: those of the tools, and those of published studies.

The studies' own CSVs are read by one file each in this folder, which has what a tool's file has:
`NAME`, `WHAT`, `recognises(source)` and `parse(source)`.
"""

from __future__ import annotations

import importlib
from typing import cast

from savemark.tools import Tool, tools

# Read line by line, whatever its size: asked first, for the others need the whole text.
FIRST = "warp"
STUDIES = ("acceptance", "checkpoint_exercise", "streamer_bench", "system_info")


def formats() -> dict[str, Tool]:
    """Return the formats by name, in the order in which they are asked."""
    studies = {name: importlib.import_module(f"{__package__}.{name}") for name in STUDIES}
    by_name = {**{name: cast(Tool, module) for name, module in studies.items()}, **tools()}
    return {FIRST: by_name[FIRST], **by_name}
