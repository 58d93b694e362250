"""From a chart to SVG and PNG, with no browser."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import altair as alt
import vl_convert as vlc

from savemark.report.figure import Panel
from savemark.report.palette import CODECS, INK, light

FONT = "Roboto, system-ui, sans-serif"


def svg(panels: Sequence[Panel]) -> str:
    """The figure as it stands alone, on white."""
    return vlc.vegalite_to_svg(_joined(panels))


def png(drawing: str) -> bytes:
    """The same as pixels, at twice the size for slides and dense screens."""
    return vlc.svg_to_png(drawing, scale=2)


def inline(panel: Panel, unique: str) -> str:
    """One panel for the page: its colours are CSS variables, so that dark mode needs no script."""
    text = vlc.vegalite_to_svg(_spec(panel.chart))
    for name, pair in {**INK, **{f"codec-{k}": v for k, v in CODECS.items()}}.items():
        text = text.replace(f'"{pair[0]}"', f'"var(--{name})"')
    text = re.sub(r'\bid="(clip|gradient)', rf'id="{unique}-\1', text)
    text = re.sub(r"url\(#(clip|gradient)", rf"url(#{unique}-\1", text)
    text = re.sub(
        r'<rect width="[\d.]+" height="[\d.]+" fill="white"/?>(</rect>)?', "", text, count=1
    )
    size = re.search(r'width="([\d.]+)" height="([\d.]+)" viewBox', text)
    style = f' style="max-width:{float(size[1]) * 1.45:.0f}px"' if size else ""
    text = re.sub(r' width="[\d.]+" height="[\d.]+" viewBox', f"{style} viewBox", text, count=1)
    # A thousandth of a pixel is enough; the rest is weight. (No label has more than 3 decimals.)
    return re.sub(r"(\d+\.\d{3})\d+", r"\1", text)


def _joined(panels: Sequence[Panel]) -> dict[str, Any]:
    titled = [panel.chart.properties(title=panel.title) for panel in panels]
    whole = titled[0] if len(titled) == 1 else alt.concat(*titled, columns=2, spacing=40)
    return _spec(whole, background="white", padding=16)


def _spec(chart: Any, background: str = "white", padding: int = 4) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "labelColor": light("text"),
        "titleColor": light("text"),
        "gridColor": light("grid"),
    }
    axis |= {
        "domainColor": light("quiet"),
        "tickColor": light("quiet"),
        "titleFontWeight": "normal",
    }
    axis |= {"labelFontSize": 12, "titleFontSize": 12.5, "titlePadding": 8, "labelPadding": 4}
    legend: dict[str, Any] = {
        "labelColor": light("text"),
        "titleColor": light("text"),
        "labelFontSize": 12.5,
    }
    legend |= {
        "symbolSize": 80,
        "symbolOpacity": 1,
        "orient": "top",
        "title": None,
        "columnPadding": 14,
        "offset": 10,
    }
    title: dict[str, Any] = {
        "color": light("text"),
        "anchor": "start",
        "fontSize": 14,
        "fontWeight": 600,
    }
    done = chart.configure(background=background, font=FONT, padding=padding)
    done = (
        done.configure_axis(**axis)
        .configure_axisY(minExtent=34)
        .configure_legend(**legend)
        .configure_title(**title)
    )
    spec: dict[str, Any] = done.configure_view(stroke=None).to_dict()
    return spec
