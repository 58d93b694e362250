"""The original study's figure `first`."""

from __future__ import annotations

from savemark.report.figures._gpu_grid import published
from savemark.report.figures._grid import per

NEEDS = ("first_done_bytes", "first_done_ns")
FIGURE = published("first", "The rate until the first worker ended.", NEEDS, per(*NEEDS), 60)
