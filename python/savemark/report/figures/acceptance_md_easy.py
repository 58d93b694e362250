"""Metadata, easy, with the original study's definitions."""

from __future__ import annotations

from savemark.report.figure import Figure
from savemark.report.figures._acceptance import HOW, applies, operations

FIGURE = Figure(
    name="acceptance_md_easy",
    section="study",
    title="Metadata, easy",
    caption="Empty files, each worker in a directory of its own, against the number "
    f"of files in all. {HOW}",
    needs=("part", "phase", "elapsed_ns"),
    draw=operations("metadata easy"),
    order=63,
    applies=applies("metadata easy"),
)
