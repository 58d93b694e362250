"""The original study's figure `diff`."""

from __future__ import annotations

from savemark.report.figures._gpu_grid import published
from savemark.report.figures.grid_diff import difference

NEEDS = ("first_done_ns", "first_done_bytes", "user_bytes")
FIGURE = published("diff", "|first − last|, trial by trial.", NEEDS, difference, 62)
