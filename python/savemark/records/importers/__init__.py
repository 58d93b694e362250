"""One file per format of other programs' result files, found by name.

Each has `WHAT` (what it reads, in a few words), `recognise(path, text)`, which looks at the content
(a name proves nothing), and `read(path, text)`, which is lenient about junk around the data and
strict about the data: what is missing stays missing, what is damaged is a usage error that names
file and line.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Protocol, cast

from savemark.records.imported import Imported


class Format(Protocol):
    """What each file of this folder is."""

    WHAT: str

    def recognise(self, path: Path, text: str) -> bool:
        """Whether the content is of this format."""

    def read(self, path: Path, text: str) -> Imported:
        """Return what the file says."""


def formats() -> dict[str, Format]:
    """Return the formats by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: cast(Format, importlib.import_module(f"{__name__}.{name}")) for name in names}
