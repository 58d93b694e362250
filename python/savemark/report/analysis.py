"""One run, read and judged: what every rendering of the report starts from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from savemark.checks import Evidence, Finding, Verdict, registered, run_checks
from savemark.checks.repeats import leader
from savemark.records import Run, phases, read_run
from savemark.records.ranked import ranks
from savemark.report.factors import TARGET, Factor, factors
from savemark.report.visible import KEYS, forbidden, visible
from savemark.stats import TOTAL, Cell, Ranking, TargetResult, results
from savemark.stats.results import UNLIKE, competes


@dataclass(frozen=True, slots=True)
class Analysis:
    """The records, what was computed from them, and what the checks say about it.

    Numbers that a check forbids are in none of it, unless `show_blocked` asked for them.
    """

    run: Run
    frame: pl.DataFrame
    results: list[TargetResult]
    findings: list[Finding]
    factors: list[Factor]
    show_blocked: bool = False

    @property
    def own_factors(self) -> list[Factor]:
        """The factors that vary on one target."""
        return [factor for factor in self.factors if factor.name != TARGET]

    @property
    def parts(self) -> list[str]:
        """The parts of a study that has several workloads; empty for any other."""
        return list(self.run.study.parts)

    def apart(self, result: TargetResult) -> dict[str, TargetResult]:
        """The cells of a target apart by what is saved; of a study in parts, part by part."""
        if not self.parts:
            return result.by_given()
        # What is given begins with the part; of two parts the longer name is meant.
        names = sorted(self.parts, key=len, reverse=True)
        mine: dict[str, list[Cell]] = {name: [] for name in self.parts}
        for cell in result.cells:
            part = next((n for n in names if f"{cell.given}, ".startswith(f"{n}, ")), None)
            mine.setdefault(part or cell.given, []).append(cell)
        return {name: replace(result, cells=tuple(some)) for name, some in mine.items() if some}

    @property
    def counted(self) -> bool:
        """Whether all speeds are numbers of operations."""
        cells = [cell for result in self.results for cell in result.cells if cell.ran]
        return bool(cells) and all(cell.counted for cell in cells)

    @property
    def phases(self) -> list[str]:
        """The names of all phases, in the order in which they run."""
        return list(dict.fromkeys(name for result in self.results for name in result.phases))

    def work(self, phase: str) -> tuple[str, float, str] | None:
        """What times of unlike work are divided by: a column, how much of it, and the unit.

        None where every trial did the same, so that its seconds can be compared as they are.
        """
        rows = self.frame.filter((pl.col("role") == "trial") & (pl.col("phase") == phase))
        for column, size, unit in (
            ("iterations", 1.0, "seconds per iteration"),
            ("user_bytes", 2.0**30, "seconds per GiB"),
        ):
            amounts = rows[column].drop_nulls()
            if len(amounts) < len(rows) or not len(amounts) or not amounts.min():
                continue
            if float(amounts.max()) > UNLIKE * float(amounts.min()):  # type: ignore[arg-type]
                return column, size, unit
        return None

    def unit(self, phase: str) -> str:
        """The unit of `s` in the rows of `measured`."""
        work = self.work(phase)
        return work[2] if work else "seconds"

    def measured(self, phase: str) -> pl.DataFrame:
        """The rows of one phase on all targets that may be shown; factors as text.

        `s` is the time in the unit that `unit` says.
        """
        work = self.work(phase)
        per = pl.col(work[0]) / work[1] if work else pl.lit(1.0)
        parts = [self.rows(result.label, phase) for result in self.results]
        rows = pl.concat(parts) if parts else self.frame.clear()
        columns = [pl.col(f.name).cast(pl.String).fill_null("none") for f in self.own_factors]
        return rows.filter(pl.col("elapsed_ns") > 0).with_columns(
            *columns, pl.col("label").alias(TARGET), s=pl.col("elapsed_ns") / 1e9 / per
        )

    @property
    def short_title(self) -> str | None:
        """What the parts of a short setting name are; None where the setting's name is short."""
        own = self.own_factors
        if {factor.name for factor in own} <= {"codec", "streams"}:
            return None
        return " · ".join(factor.title for factor in own)

    def levels(self) -> dict[tuple[str, str], dict[str, str]]:
        """The levels of each cell, by (label, setting), as people write them."""
        names = [factor.name for factor in self.own_factors]
        rows = self.frame.filter(pl.col("role") == "trial").unique(["label", "setting"])
        return {
            (row["label"], row["setting"]): {
                f.name: f.shown("none" if row[f.name] is None else str(row[f.name]))
                for f in self.own_factors
            }
            for row in rows.select("label", "setting", *names).to_dicts()
        }

    @property
    def coded(self) -> bool:
        """Whether stored bytes differ from user bytes anywhere, as a codec makes them."""
        cells = [cell for result in self.results for cell in result.cells]
        return any(cell.codec != "none" or round(cell.ratio, 3) != 1 for cell in cells)

    def short(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The same rows with settings named by their levels alone: `0-7 · 4 MiB · 128`."""
        if self.short_title is None or rows.is_empty():
            return rows
        levels = [
            pl.col(f.name).cast(pl.String).replace({level: f.shown(level) for level in f.levels})
            for f in self.own_factors
        ]
        if not self.parts:
            levels = [level.fill_null("none") for level in levels]
        # A part of a study has no word for the factors of the others.
        name = pl.concat_str(levels, separator=" · ", ignore_nulls=True)
        return rows.with_columns(setting=name)

    def rows(self, label: str, phase: str) -> pl.DataFrame:
        """The finished trials of one target and phase that a figure may show: no blocked ones."""
        # Every figure asks, and of a hundred thousand trials each answer is a copy.
        memory, key = self.run.memory, ("rows", label, phase)
        if key not in memory:
            memory[key] = self._rows(label, phase)
        found: pl.DataFrame = memory[key]
        return found

    def _rows(self, label: str, phase: str) -> pl.DataFrame:
        blocked = [
            cell.setting
            for result in self.results
            for cell in result.cells
            if result.label == label and phase in cell.blocked
        ]
        mine = (pl.col("role") == "trial") & (pl.col("label") == label) & (pl.col("phase") == phase)
        timed = pl.col("elapsed_ns").is_not_null()  # an imported rate may have no time
        return self.frame.filter(mine & timed & ~pl.col("setting").is_in(blocked))

    @property
    def ranks(self) -> pl.DataFrame:
        """What each rank did, of trials that several ran; no forbidden phases, unless asked for."""
        found = ranks(self.run)
        if self.show_blocked or found.is_empty():
            return found
        return found.join(forbidden(self.results), on=KEYS, how="anti", maintain_order="left")

    @property
    def fired(self) -> list[Finding]:
        """The findings a reader has to be told of, the worst first."""
        order = list(Verdict)
        return sorted(
            (f for f in self.findings if f.verdict.fired), key=lambda f: order.index(f.verdict)
        )

    @property
    def unverified(self) -> list[Finding]:
        """The checks whose evidence is missing."""
        return [f for f in self.findings if f.verdict is Verdict.UNVERIFIED]

    @property
    def title(self) -> str:
        """What was measured, and where."""
        places = ", ".join(result.target for result in self.results) or "nothing"
        return f"{self.run.study_name}: {places}"

    @property
    def when(self) -> str:
        """When, and by which version."""
        return f"{self.run.started_at.replace('T', ' ')} · savemark {self.run.version}"

    @property
    def badge(self) -> tuple[str, str]:
        """The validity in two forms: a class (valid, noted, invalid) and the words to print."""
        if not any(cell.n for result in self.results for cell in result.cells):
            return "invalid", "invalid: no trial finished"
        blocks = [f for f in self.fired if f.verdict is Verdict.BLOCK]
        if blocks:
            return "invalid", f"invalid: {blocks[0].id} {registered(blocks[0].id).blocked}"
        if any(f.id == "HC-25" and f.verdict is Verdict.FLAG for f in self.fired):
            return "invalid", "[INVALID] by IO500's rules; its speeds are a measurement"
        parts = []
        if self.fired:
            parts.append(f"{len(self.fired)} note{'s' * (len(self.fired) > 1)}")
        if self.unverified:
            some = len(self.unverified)
            parts.append(f"{some} check{'s' * (some > 1)} unverified")
        return ("noted", "valid with " + ", ".join(parts)) if parts else ("valid", "valid")


def analyse(source: Path | Run, *, show_blocked: bool = False) -> Analysis:
    """Read a run folder and judge it; with `show_blocked` numbers that a check forbids stay."""
    run = read_run(source) if isinstance(source, Path) else source
    if "analysis" not in run.memory:
        run.memory["analysis"] = _analyse(run)
    found: Analysis = run.memory["analysis"]
    if show_blocked:
        return replace(found, show_blocked=True)
    if "visible" not in run.memory:
        frame = visible(found.frame, found.results).drop("blocked_by")
        results = [result.visible() for result in found.results]
        run.memory["visible"] = replace(found, frame=frame, results=results)
    shown: Analysis = run.memory["visible"]
    return shown


def _analyse(run: Run) -> Analysis:
    frame = phases(run)
    findings, judged = run_checks(Evidence(run, frame, results(run, frame)))
    varied = factors(run, frame, [result.label for result in judged])
    return Analysis(run, frame, judged, findings, varied)


def ranked(result: TargetResult) -> tuple[list[Cell], Ranking | None]:
    """The cells from fastest to slowest, those that may not compete last, and the leading group."""
    found = leader(result)
    measure = found.measure if found else TOTAL
    names = result.phases
    may = [cell for cell in result.cells if competes(cell, measure, names)]
    spreads = zip(may, result.compared(may, measure), strict=True)
    times = {cell.setting: each.median for cell, each in spreads}
    rest = [cell for cell in result.cells if cell.setting not in times]
    return [*sorted(may, key=lambda cell: times[cell.setting]), *rest], found
