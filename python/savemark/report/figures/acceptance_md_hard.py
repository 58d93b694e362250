"""Metadata, hard, with the original study's definitions."""

from __future__ import annotations

from savemark.report.figure import Figure
from savemark.report.figures._acceptance import HOW, applies, operations

FIGURE = Figure(
    name="acceptance_md_hard",
    section="study",
    title="Metadata, hard",
    caption=f"Files of 3901 bytes, all in one directory, against the number of files in all. {HOW}",
    needs=("part", "phase", "elapsed_ns"),
    draw=operations("metadata hard"),
    order=64,
    applies=applies("metadata hard"),
)
