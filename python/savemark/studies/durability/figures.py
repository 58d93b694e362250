"""The figures of what policies cost and buy, and those of the original."""

from __future__ import annotations

from savemark.studies.durability import device, lost, path, published, rates, sync

FIGURES = (
    *rates.FIGURES,
    *path.FIGURES,
    *sync.FIGURES,
    *device.FIGURES,
    *lost.FIGURES,
    *published.FIGURES,
)
