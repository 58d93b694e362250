"""The figures that the study was published with: means ± one deviation."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.factors import TARGET, roles
from savemark.report.figure import Figure, Panel
from savemark.report.figures.rates import (
    GIB,
    KOPS,
    Line,
    chart,
    mean_with_deviation,
    of_part,
    varied,
)
from savemark.studies.acceptance.tables import NAMES, STUDY

HOW = (
    "As the original study drew it: mean ± one standard deviation, a line per file system (there: "
    "per number of nodes). The picture above has medians and intervals of the same trials."
)


def why_not(*parts: str) -> Callable[[Analysis], str | None]:
    """These figures belong to one study, and to some of its parts."""

    def why(analysis: Analysis) -> str | None:
        if analysis.run.study_name != STUDY:
            return f"it belongs to the study {STUDY}"
        there = any(not of_part(analysis, part).is_empty() for part in parts)
        return None if there else f"no finished trial of {' or '.join(parts)} may be shown"

    return why


def speeds(phase: str, *parts: str) -> Callable[[Analysis], list[Panel]]:
    """GiB/s of one phase against what varies, a panel per part and a line per target."""

    def draw(analysis: Analysis) -> list[Panel]:
        panels = []
        for part in parts:
            rows = of_part(analysis, part).filter(pl.col("phase") == phase)
            across = roles([f for f in varied(analysis, rows) if f.name != TARGET]).across
            if across is not None:
                lines = [Line(name, own) for name, own in _by_target(rows)]
                drawn = chart(lines, across, GIB, mean_with_deviation, logarithmic=False)
                panels.append(Panel(f"{part}, {phase}", drawn))
        return panels

    return draw


def operations(part: str) -> Callable[[Analysis], list[Panel]]:
    """1000 operations per second against the number of files, a panel per target."""

    def draw(analysis: Analysis) -> list[Panel]:
        panels = []
        for label, rows in _by_target(of_part(analysis, part)):
            across = roles([f for f in varied(analysis, rows) if f.name != TARGET]).across
            if across is not None:
                lines = [
                    Line(word, rows.filter(pl.col("phase") == phase))
                    for phase, word in NAMES.items()
                    if phase in rows["phase"]
                ]
                drawn = chart(lines, across, KOPS, mean_with_deviation, logarithmic=False)
                several = len(analysis.results) > 1
                panels.append(Panel(f"{part}, {label}" if several else part, drawn))
        return panels

    return draw


def _by_target(rows: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    return [(str(k[0]), own) for k, own in rows.group_by(TARGET, maintain_order=True)]


FIGURES = (
    Figure(
        name="acceptance_shared_write",
        section="study",
        title="Write to a shared file",
        caption="Bandwidth of writing one file from all workers, against its stripes and against "
        f"the number of workers. {HOW}",
        needs=("part", "phase", "elapsed_ns"),
        draw=speeds("write", "stripes", "shared file"),
        order=60,
        why_not=why_not("stripes", "shared file"),
    ),
    Figure(
        name="acceptance_shared_read",
        section="study",
        title="Read from a shared file",
        caption=f"Bandwidth of reading it back, nobody what it wrote itself. {HOW}",
        needs=("part", "phase", "elapsed_ns"),
        draw=speeds("read", "stripes", "shared file"),
        order=61,
        why_not=why_not("stripes", "shared file"),
    ),
    Figure(
        name="acceptance_fpp_write",
        section="study",
        title="Write a file per process",
        caption=f"Bandwidth against the number of workers, each with a file of its own. {HOW}",
        needs=("part", "phase", "elapsed_ns"),
        draw=speeds("write", "file per process"),
        order=62,
        why_not=why_not("file per process"),
    ),
    Figure(
        name="acceptance_md_easy",
        section="study",
        title="Metadata, easy",
        caption="Empty files, each worker in a directory of its own, against the number "
        f"of files in all. {HOW}",
        needs=("part", "phase", "elapsed_ns"),
        draw=operations("metadata easy"),
        order=63,
        why_not=why_not("metadata easy"),
    ),
    Figure(
        name="acceptance_md_hard",
        section="study",
        title="Metadata, hard",
        caption=f"Files of 3901 bytes, all in one directory, against the number of files in all. "
        f"{HOW}",
        needs=("part", "phase", "elapsed_ns"),
        draw=operations("metadata hard"),
        order=64,
        why_not=why_not("metadata hard"),
    ),
)
