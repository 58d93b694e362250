"""What was varied: the factors of a run, their levels in order, and the axis each belongs on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from savemark.records import Run
from savemark.records.head import Study, StudyPart
from savemark.records.naming import shown
from savemark.report.palette import codec_order

TARGET = "target"
# The parts of a study that has several workloads; each has factors of its own.
PART = "part"
# Which factor people expect on the horizontal axis, and which one as lines, if the run has it.
ACROSS = (
    *("streams", "stripe_count", "items", "workers", "threads", "ranks", "queue_depth"),
    *("stripes", "nodes"),
)
LINES = (TARGET, "transfer", "version", "storage", "codec", "sync", "layout", "payload")
NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor that has at least two levels; levels are text, as the frame holds them."""

    name: str
    levels: tuple[str, ...]
    numeric: bool

    @property
    def title(self) -> str:
        """The name as people write it."""
        return self.name.replace("_", " ")

    def joined(self, level: str) -> bool:
        """Whether a line may go through this level: numbers, and 0 streams is another archive.

        Source: Hoefler & Belli, SC'15, rule 12.
        """
        return self.numeric and not (self.name == "streams" and level == "0")

    def shown(self, level: str) -> str:
        """A level as people write it: `64KiB` for 65536 bytes."""
        return shown(self.name, level)


@dataclass(frozen=True, slots=True)
class Roles:
    """Which factor is across, which is told apart by colour, which make rows and columns."""

    across: Factor | None
    line: Factor | None
    row: Factor | None
    columns: tuple[Factor, ...]


def factors(run: Run, frame: pl.DataFrame, labels: Sequence[str]) -> list[Factor]:
    """The varied factors: the target first, then as the study lists them, then as they ran."""
    trials = frame.filter(pl.col("role") == "trial")
    wholes: list[Study | StudyPart] = [run.study, *run.study.parts.values()]
    varied = [pair for whole in wholes for pair in whole.factors.items()]
    listed = [PART, *(name for name, _ in varied)]
    ran = [name for entry in run.entries if entry.role == "trial" for name in entry.factors]
    found = [Factor(TARGET, tuple(labels), False)] if len(labels) > 1 else []
    for name in dict.fromkeys([*listed, *ran]):
        if name == TARGET or name not in trials.columns:
            continue
        levels = trials[name].cast(pl.String)
        # What a part of the study does not vary is no level of it.
        levels = levels.drop_nulls() if run.study.parts else levels.fill_null("none")
        seen = levels.unique(maintain_order=True).to_list()
        if len(seen) > 1:
            order = (
                [*run.study.parts]
                if name == PART
                else [v for n, vs in varied if n == name for v in vs]
            )
            found.append(_factor(name, seen, order))
    return found


def roles(found: Sequence[Factor]) -> Roles:
    """Give each factor its place: the longest numeric one across, a storage or codec as lines."""
    left = list(found)
    numeric = [factor for factor in left if factor.numeric]
    across = _pick(left, ACROSS) or (max(numeric, key=lambda f: len(f.levels)) if numeric else None)
    across = across or max(left, key=lambda f: len(f.levels), default=None)
    left = [factor for factor in left if factor is not across]
    line = _pick(left, LINES) or next((f for f in left if not f.numeric), None)
    line = line or (left[0] if left else None)
    left = [factor for factor in left if factor is not line]
    row = next((f for f in left if f.numeric), left[0] if len(left) > 1 else None)
    return Roles(across, line, row, tuple(factor for factor in left if factor is not row))


def amount(level: str) -> float | None:
    """A level as a number (`64k` = 65536); None for a word."""
    match = NUMBER.fullmatch(level.strip())
    if match is None:
        return None
    return float(match[1]) * 1024.0 ** " kmgt".index(match[2].lower() or " ")


def _factor(name: str, seen: list[str], listed: Sequence[object]) -> Factor:
    numbers = {level: amount(level) for level in seen}
    if all(number is not None for number in numbers.values()):
        return Factor(name, tuple(sorted(seen, key=lambda level: numbers[level] or 0.0)), True)
    if name == "codec":
        return Factor(name, tuple(codec_order(seen)), False)
    order = dict.fromkeys("none" if level is None else str(level) for level in listed)
    there = set(seen)  # there may be tens of thousands
    known = [level for level in order if level in there]
    return Factor(name, (*known, *(level for level in seen if level not in order)), False)


def _pick(left: Sequence[Factor], wanted: Sequence[str]) -> Factor | None:
    named = {factor.name: factor for factor in left}
    return next((named[name] for name in wanted if name in named), None)
