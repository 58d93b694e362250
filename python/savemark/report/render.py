"""From charts to SVG and PNG, with no browser. Each panel is drawn once and used twice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import vl_convert as vlc

from savemark import escape
from savemark.report.compact import compact
from savemark.report.figure import Panel
from savemark.report.palette import CODECS, INK, light

FONT = "Roboto, system-ui, sans-serif"
GAP, HEAD = 28, 30  # pixels between panels of a file, and above each for its title


@dataclass(frozen=True, slots=True)
class Drawing:
    """One panel as SVG, in the colours of paper."""

    title: str
    svg: str
    width: float
    height: float


def draw(panel: Panel, unique: str) -> Drawing:
    """Draw one panel; `unique` keeps the ids of several drawings on one page apart."""
    text = vlc.vegalite_to_svg(_spec(panel.chart))
    text = re.sub(r'\bid="(clip|gradient)', rf'id="{unique}-\1', text)
    text = re.sub(r"url\(#(clip|gradient)", rf"url(#{unique}-\1", text)
    text = re.sub(
        r'<rect width="[\d.]+" height="[\d.]+" fill="white"/?>(</rect>)?', "", text, count=1
    )
    size = re.search(r'width="([\d.]+)" height="([\d.]+)" viewBox', text)
    assert size is not None  # every drawing of the renderer says its size
    return Drawing(panel.title, compact(text), float(size[1]), float(size[2]))


def alone(drawings: Sequence[Drawing], columns: int = 2) -> str:
    """The figure as it stands alone: its panels on white, each below its title."""
    rows = [drawings[i : i + columns] for i in range(0, len(drawings), columns)]
    body, top, widest = [], GAP / 2, 0.0
    for row in rows:
        left = GAP / 2
        for each in row:
            body.append(_title(each, left, top + HEAD * 0.6))
            placed = f'<svg x="{left:g}" y="{top + HEAD:g}"'
            body.append(each.svg.replace("<svg", placed, 1))
            left += each.width + GAP
        widest = max(widest, left - GAP / 2)
        top += max(each.height for each in row) + HEAD + GAP / 2
    head = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    head += f'width="{widest:g}" height="{top:g}" viewBox="0 0 {widest:g} {top:g}">'
    return f'{head}<rect width="100%" height="100%" fill="white"/>{"".join(body)}</svg>'


def svg(panels: Sequence[Panel]) -> str:
    """Panels as one file, for whoever has no page to put them on."""
    return alone([draw(panel, f"panel{i}") for i, panel in enumerate(panels)])


def inline(drawing: Drawing) -> str:
    """One panel for the page: its colours are CSS variables, so that dark mode needs no script."""
    text = drawing.svg
    for name, pair in {**INK, **{f"codec-{k}": v for k, v in CODECS.items()}}.items():
        text = text.replace(f'"{pair[0]}"', f'"var(--{name})"')
    style = f' style="max-width:{drawing.width * 1.3:.0f}px;--natural:{drawing.width:.0f}px"'
    return re.sub(r' width="[\d.]+" height="[\d.]+" viewBox', f"{style} viewBox", text, count=1)


def _title(drawing: Drawing, left: float, top: float) -> str:
    look = f'font-family="{FONT}" font-size="14" font-weight="600" fill="{light("text")}"'
    return f'<text x="{left + 4:g}" y="{top:g}" {look}>{escape.html(drawing.title)}</text>'


def _spec(chart: Any) -> dict[str, Any]:
    # The charts are ours and the tests draw them all: validating costs more than drawing. And the
    # look goes into the finished text, for each `configure_…` copies the chart with all its data.
    spec: dict[str, Any] = _printable(chart.to_dict(validate=False))
    config = dict(spec.get("config", {}))
    for name, part in _look().items():
        merges = isinstance(part, dict) and name in config
        config[name] = {**config[name], **part} if merges else part
    return {**spec, "config": config}


def _printable(part: Any) -> Any:
    """The same without control characters: neither XML nor the renderer's expressions take them.

    What else a name holds, they escape themselves.
    """
    if isinstance(part, dict):
        return {name: _printable(value) for name, value in part.items()}
    if isinstance(part, list):
        return [_printable(value) for value in part]
    return escape.printable(part) if isinstance(part, str) else part


def _look() -> dict[str, Any]:
    text = {"labelColor": light("text"), "titleColor": light("text")}
    lines = {"gridColor": light("grid"), "domainColor": light("quiet"), "tickColor": light("quiet")}
    sizes = {"labelFontSize": 12, "titleFontSize": 12.5, "titlePadding": 8, "labelPadding": 4}
    above = {"symbolSize": 80, "symbolOpacity": 1, "orient": "top", "title": None}
    return {
        "background": "white",
        "font": FONT,
        "padding": 4,
        "axis": {**text, **lines, "titleFontWeight": "normal", **sizes},
        "axisY": {"minExtent": 34},
        "legend": {**text, "labelFontSize": 12.5, **above, "columnPadding": 26, "offset": 10},
        "header": {**text, "labelFontSize": 12.5},
        "view": {"stroke": None},
    }
