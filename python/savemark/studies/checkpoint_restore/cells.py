"""Bars and marks of codec × streams: what the figures of the study are drawn by."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import stdev
from typing import Any

import altair as alt

from savemark.report.analysis import Analysis
from savemark.report.figure import Panel
from savemark.report.marks import WIDTH, inline, seconds_scale, ticks
from savemark.report.palette import codec_order, light
from savemark.report.text import seconds
from savemark.studies.checkpoint_restore.legacy import Legacy, Statistic
from savemark.studies.checkpoint_restore.parts import (
    Part,
    common,
    leading,
    parts,
    variants,
)

PARTS = ("checkpoint", "restore", "total")
PHASES = {"checkpoint": "save", "restore": "restore"}
COLOURS = alt.Scale(domain=list(PARTS), range=[light(n) for n in ("first", "second", "third")])
STORAGES = ("first", "second", "fourth", "limit", "third", "quiet")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
HEIGHT = 260
ROOM = 1.3  # above the highest bar, for its label
SHORT = 10  # characters of a storage's name that fit there
Row = dict[str, Any]


def grid(of: Statistic, *, deviation: bool) -> Any:
    """Draw, per storage, a panel per number of streams: bars of each codec by `of`."""

    def draw(analysis: Analysis) -> list[Panel]:
        panels = []
        for part in parts(analysis):
            codecs, streams = _levels([part])
            rows = {n: _bars(part.legacy, n, codecs, of, deviation) for n in streams}
            top = max(row["high"] for each in rows.values() for row in each)
            panels += [
                Panel(f"{part.title}: {n} streams", _bar_chart(rows[n], codecs, top))
                for n in streams
            ]
        return panels

    return draw


def _levels(same: Sequence[Part]) -> tuple[list[str], list[int]]:
    """The codecs and the numbers of streams of these storages."""
    cells = [cell for part in same for cell in part.legacy.cells]
    return codec_order([codec for codec, _ in cells]), sorted({n for _, n in cells})


def _bars(
    data: Legacy, streams: int, codecs: list[str], of: Statistic, deviation: bool
) -> list[Row]:
    rows: list[Row] = []
    for codec in codecs:
        cell = codec, streams
        for part in PARTS:
            head: Row = {"codec": codec, "part": part}
            if cell not in data.cells:
                rows.append(head | {"s": None, "low": None, "high": 0, "text": "no data"})
                continue
            s = data.statistic(cell, part, of)
            off = data.statistic(cell, part, stdev) if deviation and data.repeats(cell) > 1 else 0
            tip = f"{codec} × {streams}: {part} {s:.3f} s" + (f" ± {off:.3f} s" if off else "")
            bounds = {"low": max(s - off, 0), "high": s + off}
            rows.append(head | bounds | {"s": s, "text": f"{s:.2f}", "tip": tip})
    return rows


def _bar_chart(rows: list[Row], codecs: list[str], top: float) -> Any:
    base = alt.Chart(inline(rows)).encode(
        x=alt.X("codec:N", sort=codecs, title="compression", axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("part:N", sort=PARTS),
    )
    scale = alt.Scale(domain=[0, top * ROOM], nice=False)
    y = alt.Y("s:Q", title="time, seconds", scale=scale, axis=alt.Axis(tickCount=5))
    color = alt.Color("part:N", scale=COLOURS, sort=PARTS)
    bars = base.mark_bar().encode(y=y, color=color, description="tip:N")
    spread = base.mark_rule(strokeWidth=1.2, color=light("text"), aria=False)
    words = base.mark_text(
        angle=270, align="left", baseline="middle", dx=5, fontSize=10.5, color=light("text")
    )
    return alt.layer(
        bars,
        spread.encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        words.encode(y=alt.Y("high:Q", scale=scale), text="text:N"),
    ).properties(width=WIDTH, height=HEIGHT)


def intervals(analysis: Analysis) -> list[Panel]:
    """Draw the same grid with medians, their intervals, and the leading group of the storage."""
    panels = []
    for part in parts(analysis):
        found = part.result.ranking("total")
        group = found.settings if found else set()
        codecs, streams = _levels([part])
        rows = [row for row in _points(part, group) if row["streams"] in streams]
        scale, kind = seconds_scale([row[name] for row in rows for name in ("low", "high")])
        for n in streams:
            mine = [row for row in rows if row["streams"] == n]
            x = alt.X("codec:N", sort=codecs, title="codec", axis=alt.Axis(labelAngle=0))
            place = {"x": x, "xOffset": alt.XOffset("part:N", sort=PARTS)}
            chart = _point_chart(mine, place, scale, kind, ("part", COLOURS))
            panels.append(Panel(f"{part.title}: {n} streams", chart))
    return panels


def _points(part: Part, group: set[str]) -> list[Row]:
    rows: list[Row] = []
    for cell in part.result.cells:
        if (cell.codec, cell.streams) not in part.legacy.cells or cell.total is None:
            continue
        for name in PARTS:
            found = cell.total if name == "total" else cell.phases[PHASES[name]].seconds
            low, high = seconds(found.low), seconds(found.high)
            tip = f"{cell.setting}: {name} {seconds(found.median)} s [{low} {high}], {found.kind}"
            rows.append(
                {"codec": cell.codec, "streams": cell.streams, "part": name}
                | {"leads": cell.setting in group}
                | {"s": found.median, "low": found.low, "high": found.high, "tip": tip}
            )
    return rows


def _point_chart(
    rows: list[Row], place: Row, scale: alt.Scale, kind: str, look: tuple[str, alt.Scale]
) -> Any:
    name, colours = look
    names = colours.to_dict()["domain"]
    shapes = alt.Scale(domain=names, range=[SHAPES[i % len(SHAPES)] for i in range(len(names))])
    y = alt.Y(
        "s:Q", scale=scale, axis=ticks(scale), title=f"median, seconds ({kind}; lower is better)"
    )
    # Filled or hollow has a meaning of its own, so the legend is neither.
    legend = alt.Legend(symbolFillColor="transparent")
    color = alt.Color(f"{name}:N", scale=colours, sort=names, legend=legend)
    paint = dict(zip(names, colours.to_dict()["range"], strict=True))
    rows = [row | {"fill": paint[row[name]] if row["leads"] else "transparent"} for row in rows]
    base = alt.Chart(inline(rows)).encode(**place)
    span = base.mark_rule(strokeWidth=1.6, opacity=0.7, aria=False).encode(
        y=alt.Y("low:Q", scale=scale), y2="high:Q", color=color
    )
    marks = base.mark_point(size=58, opacity=1, strokeWidth=1.6).encode(
        y=y,
        color=color,
        shape=alt.Shape(f"{name}:N", scale=shapes, sort=names, legend=legend),
        fill=alt.Fill("fill:N", scale=None),
        description="tip:N",
    )
    return (span + marks).properties(width=WIDTH, height=HEIGHT)


def across(of: Statistic) -> Any:
    """Draw, per codec, the storages beside each other for each number of streams."""

    def draw(analysis: Analysis) -> list[Panel]:
        panels = []
        for variant, same in variants(analysis).items():
            codecs, streams = _levels(same)
            rows = [row for part in same for row in _stacks(part, of)]
            top = max(row["total"] for row in rows)
            labels = [part.label for part in same]
            for codec in codecs:
                mine = [row for row in rows if row["codec"] == codec]
                title = ", ".join(word for word in (codec, variant) if word)
                x = "streams", "streams", streams
                panels.append(Panel(title, stack_chart(mine, x, ("storage", labels), top)))
        return panels

    return draw


def _stacks(part: Part, of: Statistic) -> list[Row]:
    rows: list[Row] = []
    for codec, streams in part.legacy.cells:
        times = {p: part.legacy.statistic((codec, streams), p, of) for p in PARTS[:2]}
        total = sum(times.values())
        # A path would not fit above its bar; the colour says which storage it is.
        name = f"{part.label} " if len(part.label) <= SHORT else ""
        for place, (phase, s) in enumerate(times.items()):
            tip = f"{codec} × {streams} on {part.label}: {phase} {s:.3f} s of {total:.3f} s"
            rows.append(
                {"codec": codec, "streams": streams, "storage": part.label, "part": phase, "s": s}
                | {"place": place, "total": total, "text": f"{name}{total:.1f}", "tip": tip}
            )
    return rows


def stack_chart(
    rows: list[Row], x: tuple[str, str, Sequence[Any]], beside: tuple[str, list[str]], top: float
) -> Any:
    """Stacked bars: `x` is field, title and levels; `beside` what stands side by side there."""
    (field, title, levels), (group, labels) = x, beside
    scale = alt.Scale(domain=[0, top * ROOM], nice=False)
    where = alt.X(f"{field}:O", sort=levels, title=title, axis=alt.Axis(labelAngle=0))
    place = {
        "x": where.scale(domain=levels, paddingInner=0.12),
        "xOffset": alt.XOffset(f"{group}:N", sort=labels, scale=alt.Scale(domain=labels)),
    }
    strength = alt.Scale(domain=list(PARTS[:2]), range=[1.0, 0.5])
    y = alt.Y("s:Q", stack="zero", title="time, seconds", scale=scale, axis=alt.Axis(tickCount=5))
    bars = (
        alt.Chart(inline(rows))
        .mark_bar()
        .encode(
            **place,
            y=y,
            color=alt.Color(
                f"{group}:N",
                scale=_label_scale(labels),
                sort=labels,
                legend=alt.Legend(columns=3),  # more would not fit above the panel
            ),
            opacity=alt.Opacity("part:N", scale=strength, sort=PARTS[:2]),
            order=alt.Order("place:Q"),
            description="tip:N",
        )
    )
    tops = [row for row in rows if row["place"] == 0]
    words = alt.Chart(inline(tops)).mark_text(
        angle=270, align="left", baseline="middle", dx=5, fontSize=10.5, color=light("text")
    )
    above = words.encode(**place, y=alt.Y("total:Q", scale=scale), text="text:N")
    return (bars + above).properties(width=WIDTH, height=HEIGHT)


def _label_scale(labels: list[str]) -> alt.Scale:
    colours = [light(STORAGES[i % len(STORAGES)]) for i in range(len(labels))]
    return alt.Scale(domain=labels, range=colours)


def across_intervals(analysis: Analysis) -> list[Panel]:
    """Draw the same with medians, intervals and ties, where every storage has the cell."""
    panels = []
    for variant, same in variants(analysis).items():
        cells, labels = common(same), [part.label for part in same]
        if len(same) < 2 or not cells:
            continue
        rows = [row for cell in cells for row in _contest(same, cell)]
        scale, kind = seconds_scale([row[name] for row in rows for name in ("low", "high")])
        streams = sorted({n for _, n in cells})
        for codec in codec_order([codec for codec, _ in cells]):
            x = alt.X("streams:O", sort=streams, title="streams", axis=alt.Axis(labelAngle=0))
            place = {"x": x, "xOffset": alt.XOffset("storage:N", sort=labels)}
            mine = [row for row in rows if row["codec"] == codec]
            look = "storage", _label_scale(labels)
            title = ", ".join(word for word in (codec, variant) if word)
            panels.append(Panel(title, _point_chart(mine, place, scale, kind, look)))
    return panels


def _contest(same: list[Part], cell: tuple[str, int]) -> list[Row]:
    ahead, rows = leading(same, cell), []
    for part in same:
        found = part.total(*cell)
        low, high = seconds(found.low), seconds(found.high)
        name = f"{cell[0]} × {cell[1]} on {part.label}"
        tip = f"{name}: {seconds(found.median)} s [{low} {high}], {found.kind}"
        rows.append(
            {
                "codec": cell[0],
                "streams": cell[1],
                "storage": part.label,
                "leads": part.label in ahead,
            }
            | {"s": found.median, "low": found.low, "high": found.high, "tip": tip}
        )
    return rows
