"""The tables of the original, with its definitions, and what answers its questions instead."""

from __future__ import annotations

from dataclasses import replace

from savemark import escape
from savemark.files import safe
from savemark.report.additions import Pictures
from savemark.report.analysis import Analysis
from savemark.report.document import Block, Code, Fold, Table, Text
from savemark.studies.checkpoint_restore import corrected, legacy, stalls, storages
from savemark.studies.checkpoint_restore.parts import Part, original, parts


def tables(analysis: Analysis) -> list[Table]:
    """How long an application stands still, and the storages beside each other."""
    return [*stalls.tables(analysis), *storages.storages_tables(analysis)]


def folds(analysis: Analysis, pictures: Pictures) -> list[Block]:  # noqa: ARG001
    """Per storage (and payload): the corrected tables, and the original's behind what is wrong."""
    own = _parts(analysis)
    blocks: list[Block] = []
    for part in own:
        where = f" · {part.title}" if len(own) > 1 else ""
        twins = (corrected.streams_table(part.result), corrected.codec_table(part.result))
        blocks += [replace(t, title=f"{t.title}{where}") for t in twins if t]
        text = Code("Legacy tables", legacy.text(part.legacy))
        blocks.append(Fold(f"Legacy definitions{where}", (Text(legacy.WRONG), text)))
    return blocks


def files(analysis: Analysis) -> dict[str, str]:
    """The original's tables as text."""
    return {
        f"legacy_{safe(part.title)}.txt": escape.printable(legacy.text(part.legacy))
        for part in _parts(analysis)
    }


def _parts(analysis: Analysis) -> list[Part]:
    return parts(analysis) if original(analysis) else []
