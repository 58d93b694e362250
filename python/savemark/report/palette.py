"""Colours and shapes: one meaning, one look, in light and in dark."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

# Okabe & Ito's palette, told apart with any colour vision; shape repeats what colour says.
# Each colour is (light page, dark page).
CODECS = {
    "none": ("#20252b", "#eef1f5"),
    "tar": ("#0a6fb0", "#5cb8ee"),
    "lz4": ("#00886a", "#2cc79f"),
    "zstd": ("#cc5200", "#ff8a47"),
    "gzip": ("#b0568c", "#e59fc8"),
    "zlib": ("#a87900", "#f0c14b"),
    "planes": ("#8b1e3f", "#f2899e"),
}
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left")
INK = {
    "text": ("#1f2429", "#e6eaef"),
    "quiet": ("#5a646f", "#9fabb8"),
    "grid": ("#e3e7ec", "#2d353e"),
    "limit": ("#6f42c1", "#b79bf5"),
    "first": ("#3877b5", "#5b9fe0"),
    "second": ("#e39b2f", "#f0b45a"),
    "third": ("#8a94a0", "#76828f"),
    "fourth": ("#5f9e74", "#7fc096"),
}


def light(name: str) -> str:
    """The colour of a role on paper."""
    return INK[name][0]


def codec_scale(codecs: Sequence[str]) -> tuple[alt.Scale, alt.Scale]:
    """Colour and shape per codec, the same in every figure of every run."""
    spare = [INK[name][0] for name in ("first", "second", "fourth", "third")]
    known = list(CODECS)
    colours = [CODECS[c][0] if c in CODECS else spare[i % 4] for i, c in enumerate(codecs)]
    shapes = [
        SHAPES[(known.index(c) if c in CODECS else i) % len(SHAPES)] for i, c in enumerate(codecs)
    ]
    names = list(codecs)
    return alt.Scale(domain=names, range=colours), alt.Scale(domain=names, range=shapes)


def level_scale(name: str, levels: Sequence[str]) -> tuple[alt.Scale, alt.Scale]:
    """Colour and shape per level of a factor: a codec keeps its own, others take the row in turn.

    `name` is the factor's. More levels than colours start again with another shape.
    """
    if name == "codec":
        return codec_scale(levels)
    row = [CODECS[codec][0] for codec in ("tar", "zstd", "lz4", "gzip", "zlib", "planes", "none")]
    names, places = list(levels), range(len(levels))
    colours = [row[i % len(row)] for i in places]
    shapes = [SHAPES[(i + i // len(row)) % len(SHAPES)] for i in places]
    return alt.Scale(domain=names, range=colours), alt.Scale(domain=names, range=shapes)


def codec_order(codecs: Sequence[str]) -> list[str]:
    """The codecs of a run in the fixed order, unknown ones last."""
    known = list(CODECS)
    return sorted(set(codecs), key=lambda c: (known.index(c) if c in known else len(known), c))


def css_variables(dark: bool) -> str:
    """The palette as CSS."""
    pairs = {**INK, **{f"codec-{k}": v for k, v in CODECS.items()}}
    return "".join(f"--{name}:{pair[dark]};" for name, pair in pairs.items())
