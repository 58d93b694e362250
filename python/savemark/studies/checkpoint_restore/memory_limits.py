"""The original study's old against new: memory limits of the streamer beside none."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.figure import Figure, Panel
from savemark.report.palette import codec_order
from savemark.studies.checkpoint_restore.cells import Row, stack_chart
from savemark.studies.checkpoint_restore.parts import Part, parts, why_not

FACTOR = "memory_limit"


def draw(analysis: Analysis) -> list[Panel]:
    """Draw a panel per storage, process and number of streams above 0."""
    frame = analysis.frame.filter(pl.col("phase").is_not_null())
    limits = dict(frame.select("variant", FACTOR).unique().rows())
    groups: dict[str, dict[str | None, Part]] = {}
    for part in parts(analysis):
        limit = limits[part.variant]
        rest = [w for w in part.variant.split(", ") if w and w != f"{FACTOR} {limit}"]
        groups.setdefault(", ".join([part.label, *rest]), {})[limit] = part
    return [panel for title, by in groups.items() if len(by) > 1 for panel in _panels(title, by)]


def _panels(title: str, by: dict[str | None, Part]) -> list[Panel]:
    limits = sorted((limit for limit in by if limit), key=_megabytes, reverse=True)
    streams = sorted({n for part in by.values() for _, n in part.legacy.cells if n})
    found = []
    for n in streams:
        wanted: list[tuple[str, str | None, int]] = [("0 streams", None, 0)]
        wanted.append(("no limit", None, n))
        wanted += [(limit, limit, n) for limit in limits]
        rows = [
            row for name, limit, s in wanted if limit in by for row in _rows(name, by[limit], s)
        ]
        if rows:
            labels = [name for name, limit, _ in wanted if limit in by]
            found.append(Panel(f"{title}: {n} streams", _chart(rows, labels)))
    return found


def _rows(name: str, part: Part, streams: int) -> list[Row]:
    """The original study averaged the repeats here, instead of taking their minimum or median."""
    rows: list[Row] = []
    for codec, n in part.legacy.cells:
        if n != streams:
            continue
        times = [part.legacy.statistic((codec, n), p, fmean) for p in ("checkpoint", "restore")]
        for place, (phase, s) in enumerate(zip(("checkpoint", "restore"), times, strict=True)):
            tip = f"{codec} × {n}, {name}: {phase} {s:.3f} s of {sum(times):.3f} s"
            rows.append(
                {"codec": codec, "scenario": name, "part": phase, "s": s, "place": place}
                | {"total": sum(times), "text": f"{sum(times):.2f}", "tip": tip}
            )
    return rows


def _chart(rows: Sequence[Row], labels: list[str]) -> Any:
    x = "codec", "compression", codec_order([row["codec"] for row in rows])
    top = max(row["total"] for row in rows)
    return stack_chart(list(rows), x, ("scenario", labels), top)


def _megabytes(limit: str) -> int:
    return int(limit.removesuffix("MB"))


FIGURES = (
    Figure(
        name="memory_limits",
        section="study",
        title="Legacy: memory limits of the streamer, old against new",
        caption="The original study’s figure: mean times; strong is the checkpoint, pale the "
        "restore on top of it, the sum in seconds above. Side by side for each codec: no streams, "
        "streams without a limit on the streamer’s memory, and with ever smaller limits. A mean "
        "hides outliers.",
        needs=("codec", "streams", "phase", "elapsed_ns", FACTOR),
        draw=draw,
        order=75,
        why_not=why_not,
    ),
)
