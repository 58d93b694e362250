"""The picture: save and restore time against streams, every repeat a mark."""

from __future__ import annotations

from typing import Any

import altair as alt

from savemark.report.analysis import Analysis
from savemark.report.figure import Figure, each_phase
from savemark.report.marks import WIDTH, seconds_scale, ticks
from savemark.report.palette import codec_order, codec_scale, light
from savemark.report.words import gbs, seconds
from savemark.stats import TargetResult
from savemark.stats.ceilings import SIDES


def chart(_analysis: Analysis, result: TargetResult, name: str) -> Any | None:
    """The marks, medians, lines and ceiling of one phase."""
    dots, middles = _rows(result, name)
    if not dots:
        return None
    sizes = {c.phases[name].user_bytes for c in result.cells if name in c.phases}
    ceiling = result.ceilings.get(SIDES[name][0]) if name in SIDES and len(sizes) == 1 else None
    top = (
        [{"y": sizes.pop() / ceiling.rate, "text": f"{ceiling.title} {gbs(ceiling.rate)} GB/s"}]
        if ceiling
        else []
    )
    codecs = codec_order([row["codec"] for row in dots])
    colour, shape = codec_scale(codecs)
    scale, kind = seconds_scale([row["s"] for row in dots] + [row["y"] for row in top])
    streams = sorted({row["streams"] for row in dots})
    for row in dots + middles:
        row["place"] = codecs.index(row["codec"]) + row.pop("shift", 0.0)
    spots = alt.Scale(domain=[-0.7, len(codecs) - 0.3])
    place = {
        "x": alt.X(
            "streams:O",
            sort=streams,
            title="streams (0 = one sequential archive)",
            scale=alt.Scale(paddingInner=0.06, paddingOuter=0.02),
            axis=alt.Axis(labelAngle=0, tickBand="extent", grid=True, labelPadding=8),
        ),
        "xOffset": alt.XOffset("place:Q", scale=spots),
        "y": alt.Y(
            "s:Q",
            scale=scale,
            axis=ticks(scale),
            title=f"{name} time, seconds ({kind}; lower is better)",
        ),
        "color": alt.Color(
            "codec:N", scale=colour, sort=codecs, legend=alt.Legend(columns=len(codecs))
        ),
    }
    marks = (
        alt.Chart(alt.InlineData(values=dots))
        .mark_point(filled=True, opacity=0.85, size=26)
        .encode(**place, description="tip:N", shape=alt.Shape("codec:N", scale=shape, sort=codecs))
    )
    middle = (
        alt.Chart(alt.InlineData(values=middles))
        .mark_tick(orient="horizontal", thickness=1.6, width=17, aria=False)
        .encode(**place)
    )
    # Lines only between counts of parallel streams: 0 is another kind of archive, not a smaller
    # number (Hoefler & Belli, rule 12).
    joined = [row for row in middles if row["streams"] > 0]
    lines = (
        alt.Chart(alt.InlineData(values=joined))
        .mark_line(strokeWidth=1, opacity=0.4, aria=False)
        .encode(**place)
    )
    layers = [lines, middle, marks, *_ceiling(top, scale)]
    return alt.layer(*layers).properties(width=WIDTH, height=340)


def _rows(result: TargetResult, name: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    dots, middles = [], []
    for cell in result.cells:
        phase = cell.phases.get(name)
        if phase is None or name in cell.blocked:
            continue
        head = {"codec": cell.codec, "streams": cell.streams}
        middles.append(head | {"s": phase.seconds.median})
        last = max(repeat for repeat, _ in phase.trials) or 1
        for repeat, s in phase.trials:
            speed = gbs(phase.user_bytes / s)
            tip = f"{cell.setting}, repeat {repeat + 1}: {name} {seconds(s)} s, {speed} GB/s"
            # Side by side in the order of the repeats, so that equal times stay countable.
            dots.append(head | {"s": s, "tip": tip, "shift": 0.64 * repeat / last - 0.32})
    return dots, middles


def _ceiling(top: list[dict[str, Any]], scale: alt.Scale) -> list[alt.Chart]:
    if not top:
        return []
    data = alt.InlineData(values=top)
    rule = alt.Chart(data).mark_rule(
        strokeDash=[6, 4], strokeWidth=1.4, color=light("limit"), aria=False
    )
    text = alt.Chart(data).mark_text(
        align="left", baseline="top", dy=5, dx=4, fontSize=12, color=light("limit")
    )
    return [
        rule.encode(y=alt.Y("y:Q", scale=scale)),
        text.encode(y=alt.Y("y:Q", scale=scale), x=alt.value(0), text="text:N"),
    ]


FIGURE = Figure(
    name="times",
    section="picture",
    title="Time against streams",
    caption="Each mark is one repeat, the bar across it the median; hover or tap a mark for its "
    "trial. The dashed line is the time that the disk’s ceiling, measured in this run, allows for "
    "uncompressed bytes: nothing without a codec can be below it. Thin lines join medians of 2 and "
    "more streams; streams 0 is a different archive and stays apart.",
    needs=("codec", "streams", "phase", "elapsed_ns"),
    draw=each_phase(chart),
    order=10,
)
