"""Makes a drawing small: points that say nothing become one path, numbers lose useless digits."""

from __future__ import annotations

import re

# One point of the renderer: where it is, its outline (a circle), how it looks.
POINT = re.compile(
    r'<path transform="translate\(([-\d.]+),([-\d.]+)\)" '
    r'd="M([\d.]+),0A\3,\3,0,1,1,-\3,0A\3,\3,0,1,1,\3,0" ([^>]*)/>'
)
EMPTY = re.compile(
    r'<path class="(?:background|foreground)" aria-hidden="true" d="(?:M0,0h0v0h0Z)?"[^>]*/>'
)


def compact(svg: str) -> str:
    """Return the same picture in fewer bytes.

    A circle without a description is a dot: a sub-path of no length with round ends. Thousands of
    them become one path per look. Circles with a description stay, for people ask them.
    """
    svg = EMPTY.sub("", svg)
    svg = re.sub(r'<g class="mark-symbol[^>]*>(?:<path transform=[^>]*/>)+</g>', _dots, svg)
    # A hundredth of a pixel is enough; the rest is weight.
    return re.sub(
        r'((?:transform|d|x2|y2|points)=")([^"]*)(")',
        lambda m: m[1] + re.sub(r"\d+\.\d{3,}", _rounded, m[2]) + m[3],
        svg,
    )


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _dots(group: re.Match[str]) -> str:
    text = group[0]
    points = list(POINT.finditer(text))
    # Another shape among them: leave the group as it is.
    if len(points) != text.count("<path") or len(points) < 2:
        return text
    looks: dict[tuple[str, str], list[str]] = {}
    for point in points:
        x, y, radius, look = point.groups()
        looks.setdefault((radius, look), []).append(f"M{float(x):.1f},{float(y):.1f}h0")
    paths = "".join(_path(radius, look, dots) for (radius, look), dots in looks.items())
    return f"{text[: text.index('>') + 1]}{paths}</g>"


def _path(radius: str, look: str, dots: list[str]) -> str:
    fill = re.search(r'fill="([^"]*)"', look)
    opacity = re.search(r'opacity="([^"]*)"', look)
    colour = fill[1] if fill else "black"
    faint = f' opacity="{opacity[1]}"' if opacity else ""
    return (
        f'<path fill="none" stroke="{colour}" stroke-width="{2 * float(radius):.2f}" '
        f'stroke-linecap="round"{faint} d="{"".join(dots)}"/>'
    )
