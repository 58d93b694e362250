"""The formats that a file is offered to: those of the tools, and those of published studies.

A study whose results were published has `reader.py` in its folder, which has what a tool's file
has: `NAME`, `WHAT`, `recognises(source)` and `parse(source)`.
"""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from typing import cast

from savemark.tools import Tool, tools

# Read line by line, whatever its size: asked first, for the others need the whole text.
FIRST = "warp"
FOLDER = Path(__file__).parents[1] / "studies"


@cache
def studies() -> dict[str, Tool]:
    """Return the readers of published studies, and of what their authors wrote down, by name."""
    folders = [file.parent.name for file in FOLDER.glob("*/reader.py")]
    modules = [f"savemark.studies.{name}.reader" for name in folders]
    modules.append(f"{__package__}.system_info")
    readers = [cast(Tool, importlib.import_module(module)) for module in modules]
    return {reader.NAME.replace("-", "_"): reader for reader in sorted(readers, key=_name)}


def _name(reader: Tool) -> str:
    return reader.NAME


def formats() -> dict[str, Tool]:
    """Return the formats by name, in the order in which they are asked."""
    by_name = {**studies(), **tools()}
    return {FIRST: by_name[FIRST], **by_name}
