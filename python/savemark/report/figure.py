"""What a figure is: where it stands, what it needs, how it is drawn and read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from savemark.report.analysis import Analysis
from savemark.report.document import Picture
from savemark.stats import TargetResult


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart of a figure, with the words above it."""

    title: str
    chart: Any  # altair's charts, layered or not, share no useful type


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the report: where it stands, what it needs, how it is drawn and read."""

    name: str
    section: str
    title: str
    caption: str
    needs: tuple[str, ...]
    draw: Callable[[Analysis], list[Panel]]
    order: int = 50
    # Why it does not apply to this run (None if it does): too few factors, another workload.
    why_not: Callable[[Analysis], str | None] = lambda _: None
    columns: int = 2  # panels side by side, on a wide page and in the file
    wide: bool = False  # too wide for a narrow screen: scrolled there, not shrunk
    apart: bool = False  # one file per panel, named after its title

    def absent(self, analysis: Analysis) -> str | None:
        """Why it cannot be drawn from these records, or None."""
        if why := self.why_not(analysis):
            return why
        rows = analysis.frame
        lacks = [
            n for n in self.needs if n not in rows.columns or rows[n].null_count() == len(rows)
        ]
        return f"the records hold no {', '.join(lacks)}" if lacks else None


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure as inline SVG panels, or why there is none."""

    figure: Figure
    panels: list[tuple[str, str]]
    files: list[str]  # names below figures/, without their endings
    why: str | None
    quiet: bool = False  # another figure shows it better, or it is about another workload

    @property
    def picture(self) -> Picture:
        """What a report holds of it."""
        f = self.figure
        panels, files = tuple(self.panels), tuple(self.files)
        return Picture(f.name, f.title, f.caption, panels, files, f.columns, f.wide)

    @property
    def elsewhere(self) -> bool:
        """Whether it would apply to another run, and not only to that of another study."""
        return self.quiet and not (self.why or "").startswith("it belongs to ")


def each_phase(
    chart: Callable[[Analysis, TargetResult, str], Any | None],
) -> Callable[[Analysis], list[Panel]]:
    """A figure of one panel per target and phase; `chart` returns None where it has no rows."""

    def draw(analysis: Analysis) -> list[Panel]:
        several = len(analysis.results) > 1
        panels = []
        for result in analysis.results:
            for phase in result.phases:
                drawn = chart(analysis, result, phase)
                if drawn is not None:
                    panels.append(Panel(heading(phase, result.label if several else ""), drawn))
        return panels

    return draw


def heading(name: str, label: str = "") -> str:
    """The words above a panel: what the phase promises, and where it ran."""
    promise = {"save": "Save (durable)", "restore": "Restore (verified)"}
    return " · ".join(part for part in (label, promise.get(name, name.capitalize())) if part)
