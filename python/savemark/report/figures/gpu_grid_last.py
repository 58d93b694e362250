"""The original study's figure `last`."""

from __future__ import annotations

from savemark.report.figures._gpu_grid import published
from savemark.report.figures._grid import per

NEEDS = ("user_bytes", "elapsed_ns")
FIGURE = published("last", "The rate until the last worker ended.", NEEDS, per(*NEEDS), 61)
