"""The tables of the original checkpoint/restore study, with its definitions, bit for bit.

A cell is (codec, streams); its statistic is the minimum or the median over repeats; a table line
is the arithmetic mean of that statistic over the *other* factor. Kept so that anyone can compare
with the published tables; the corrected tables beside them are the ones to use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from savemark.stats import TargetResult, median

Row = tuple[str, int, float, float]  # codec, streams, save seconds, restore seconds
Statistic = Callable[[Sequence[float]], float]
RULE = "-" * 50
WRONG = (
    "What is wrong with them: they average over unlike settings, “Variance” is the distance of the "
    "mean median from the mean minimum, “Speedup” is the share of time saved (not a speed-up), and "
    "the best of many minima is luck."
)


@dataclass(frozen=True, slots=True)
class Legacy:
    """The repeats of one target, grouped as the original study did."""

    cells: dict[tuple[str, int], list[tuple[float, float]]]

    @property
    def runs(self) -> int:
        """All tests."""
        return sum(len(times) for times in self.cells.values())

    def repeats(self, cell: tuple[str, int]) -> int:
        """Repeats of one cell."""
        return len(self.cells[cell])

    def statistic(self, cell: tuple[str, int], part: str, of: Statistic) -> float:
        """Minimum or median of save, restore or total of one cell."""
        return of([_part(times, part) for times in self.cells[cell]])

    def best(self, part: str, of: Statistic) -> tuple[str, int, float]:
        """The cell with the smallest statistic, the first of equals."""
        time, (codec, streams) = min(
            ((self.statistic(cell, part, of), cell) for cell in self.cells), key=lambda x: x[0]
        )
        return codec, streams, time

    def streams(self) -> list[tuple[int, float, float, float]]:
        """Streams, mean minimum, mean median, "variance" in percent."""
        lines = []
        for streams in sorted({streams for _, streams in self.cells}):
            low, mid = self._means([cell for cell in self.cells if cell[1] == streams])
            lines.append((streams, low, mid, (mid - low) / low * 100))
        return lines

    def speedups(self) -> list[tuple[int, float, float]]:
        """Streams, percent of time saved against 0 streams by minimum and by median."""
        lines = self.streams()
        base = next((line for line in lines if line[0] == 0), None)
        if base is None:
            return []
        return [
            (s, (base[1] - low) / base[1] * 100, (base[2] - mid) / base[2] * 100)
            for s, low, mid, _ in lines
            if s != 0
        ]

    def ranking(self) -> list[tuple[str, float, float]]:
        """Codec, mean minimum, mean median, by the latter."""
        codecs = dict.fromkeys(codec for codec, _ in self.cells)
        lines = [(c, *self._means([cell for cell in self.cells if cell[0] == c])) for c in codecs]
        return sorted(lines, key=lambda line: line[2])

    def _means(self, cells: list[tuple[str, int]]) -> tuple[float, float]:
        low = fmean(self.statistic(cell, "total", min) for cell in cells)
        return low, fmean(self.statistic(cell, "total", median) for cell in cells)


def legacy(rows: Iterable[Row]) -> Legacy:
    """Group (codec, streams, save, restore) rows; sorted, for the first of equals is the best."""
    cells: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for codec, streams, save, restore in rows:
        cells.setdefault((codec, streams), []).append((save, restore))
    return Legacy(dict(sorted(cells.items())))


def of_result(result: TargetResult, *, show_blocked: bool = False) -> Legacy | None:
    """The legacy view of one target; None where it has no codec × streams with both phases."""
    rows: list[Row] = []
    for cell in result.cells:
        hidden = cell.blocked and not show_blocked
        if not {"save", "restore"} <= set(cell.phases) or hidden:
            continue
        # A damaged record may have one of the two; the original has pairs alone.
        restores = dict(cell.phases["restore"].trials)
        rows += [
            (cell.codec, cell.streams, seconds, restores[trial])
            for trial, seconds in cell.phases["save"].trials
            if trial in restores
        ]
    return legacy(rows) if rows else None


def _part(times: tuple[float, float], part: str) -> float:
    if part == "total":
        # The original read totals as decimal text; without rounding, their third decimal differs.
        return round(times[0] + times[1], 9)
    return times[0] if part == "checkpoint" else times[1]


def text(data: Legacy) -> str:
    """The report of the original study, character by character."""
    lines = [f"Total tests run: {data.runs}", f"Configurations tested: {len(data.cells)}", ""]
    for title, of in (
        ("MINIMUM TIMES ANALYSIS (Best Case Performance)", min),
        ("MEDIAN TIMES ANALYSIS (Typical Performance)", median),
    ):
        lines += [RULE, title, RULE, ""]
        for part in ("checkpoint", "restore", "total"):
            codec, streams, time = data.best(part, of)
            lines.append(f"Best {part} time: {codec} with {streams} streams ({time:.3f}s)")
        lines.append("")
    lines += [RULE, "STREAM PERFORMANCE COMPARISON", RULE, *_stream_table(data), ""]
    if data.speedups():
        lines += ["Speedup Analysis (relative to 0 streams):", *_speedup_table(data), ""]
    lines += [RULE, "COMPRESSION METHOD RANKING", RULE, *_ranking_table(data)]
    return "\n".join(lines) + "\n"


def _stream_table(data: Legacy) -> list[str]:
    body = [f"│{s:^9}│{a:>12.3f}│{b:>12.3f}│{v:>12.1f}│" for s, a, b, v in data.streams()]
    return _box((9, 12, 12, 12), "│ Streams │Min Time(s) │ Median(s)  │Variance(%) │", body)


def _speedup_table(data: Legacy) -> list[str]:
    body = [f"│{s:^9}│{a:>+10.1f}%│{b:>+10.1f}%│" for s, a, b in data.speedups()]
    return _box((9, 11, 11), "│ Streams │Min Speedup│Median Spd.│", body)


def _ranking_table(data: Legacy) -> list[str]:
    body = [f"│{codec:<13}│{a:>12.3f}│{b:>12.3f}│" for codec, a, b in data.ranking()]
    return _box((13, 12, 12), "│   Method    │Min Time(s) │ Median(s)  │", body)


def _box(widths: tuple[int, ...], head: str, body: list[str]) -> list[str]:
    top, middle, bottom = (
        left + joint.join("─" * width for width in widths) + right
        for left, joint, right in ("┌┬┐", "├┼┤", "└┴┘")
    )
    return [top, head, middle, *body, bottom]
