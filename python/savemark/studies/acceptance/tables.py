"""The study `acceptance`: the highest speeds, which its authors quoted, from the records."""

from __future__ import annotations

from statistics import fmean, stdev

from savemark.report.analysis import Analysis
from savemark.report.document import Datum, Line, Table, quantity
from savemark.report.text import counts, gbs, interval, span
from savemark.stats import Cell, PhaseStat

STUDY = "acceptance"
# Our phases -> the original study's names.
NAMES = {"create": "creation", "stat": "stat", "read": "read", "rename": "rename"}
NAMES |= {"remove": "removal"}


def tables(analysis: Analysis) -> list[Table]:
    """The highest of each part and phase, per target; nothing for another study."""
    if analysis.run.study_name != STUDY:
        return []
    lines = []
    for result in analysis.results:
        for part, cells in analysis.apart(result).items():
            for phase in cells.phases:
                shown = [c for c in cells.cells if phase in c.phases and phase not in c.blocked]
                if shown:
                    best = max(shown, key=lambda cell: cell.phases[phase].speed)
                    lines.append(_line(result.label, part, phase, best))
    if not lines:
        return []
    heads = ["file system", "part", "phase", "at", "median", "[low high]", "mean ± SD", "p99", "n"]
    note = (
        "The setting with the highest median. Legacy, as the original quoted it: mean ± one "
        "standard deviation, in GiB/s (2³⁰ bytes) or 1000 operations per second. The highest of "
        "several settings is partly luck (HC-40): quote it after measuring it again."
    )
    return [Table("acceptance_maxima", "Highest speeds", heads, lines, note, brief=True)]


def _line(label: str, part: str, phase: str, best: Cell) -> Line:
    stat = best.phases[phase]
    p99 = stat.latency_ns.get("p99")
    unit = stat.unit
    if stat.counted:
        low_high = f"[{counts(stat.slowest)} {counts(stat.fastest)}]"
        middle = f"{counts(stat.speed)} {unit}"
    else:
        low_high, middle = interval(stat.slowest, stat.fastest), f"{gbs(stat.speed)} {unit}"
    return Line([
        Datum(label),
        Datum(part),
        Datum(NAMES.get(phase, phase) if stat.counted else phase),
        Datum(best.setting.removeprefix(part).removeprefix(", ") or "–"),
        Datum(middle, stat.speed),
        Datum(low_high, stat.slowest, stat.seconds.kind, "quiet"),
        Datum(_legacy(stat), stat.speed),
        quantity(p99 or None, span),
        Datum(str(best.n), best.n),
    ])  # fmt: skip


def _legacy(stat: PhaseStat) -> str:
    if stat.speeds is None:
        return "–"
    size, unit = (1e3, "kop/s") if stat.counted else (2.0**30, "GiB/s")
    found = [speed / size for speed in stat.speeds.samples]
    off = stdev(found) if len(found) > 1 else 0.0
    return f"{fmean(found):.3g} ± {off:.3g} {unit}"
