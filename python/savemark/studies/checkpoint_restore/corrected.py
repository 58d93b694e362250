"""The questions of the original study's tables, answered without averaging unlike settings."""

from __future__ import annotations

from savemark.report.analysis import ranked
from savemark.report.columns import place
from savemark.report.document import MISSING, Datum, Line, Table, quantity
from savemark.report.palette import codec_order
from savemark.report.text import seconds, two
from savemark.stats import Cell, TargetResult


def streams_table(result: TargetResult) -> Table | None:
    """Median total per codec and streams, with the speed-up against 0 streams of the same codec."""
    cells = {(c.codec, c.streams): c for c in result.cells if c.total and not c.blocked}
    streams = sorted({s for _, s in cells})
    if len(streams) < 2:
        return None
    lines = []
    for codec in codec_order([codec for codec, _ in cells]):
        base = cells.get((codec, 0))
        lines.append(Line([Datum(codec), *(_time(cells.get((codec, s)), base) for s in streams)]))
    note = (
        "Median of save + restore in seconds. In brackets: how many times faster than 0 streams "
        "with the same codec (ratio of medians), never averaged over codecs."
    )
    heads = ["codec", *(f"{s} streams" for s in streams)]
    return Table(f"corrected_streams_{result.label}", "Streams, corrected", heads, lines, note)


def codec_table(result: TargetResult) -> Table | None:
    """Each codec at its own best number of streams."""
    cells, found = ranked(result)
    best: dict[str, Cell] = {}
    for cell in cells:
        if cell.total and not cell.blocked:
            best.setdefault(cell.codec, cell)
    if len(best) < 2:
        return None
    lines = [_codec(cell, place(cell, found)) for cell in best.values()]
    heads = ["codec", "at its best with", "total s", "[low high]", "", "ratio", "CPU s/GiB"]
    note = "Brackets: 95 % interval of the median for 6 or more repeats, else the range."
    return Table(f"corrected_codecs_{result.label}", "Codecs, corrected", heads, lines, note)


def _time(cell: Cell | None, base: Cell | None) -> Datum:
    if cell is None or cell.total is None:
        return MISSING
    text = seconds(cell.total.median)
    if base is not None and base.total is not None and base is not cell:
        text += f" ({base.total.median / cell.total.median:.2f}×)"
    return Datum(text, cell.total.median, f"{cell.setting}: {cell.n} repeats")


def _codec(cell: Cell, mark: str) -> Line:
    total = cell.total
    assert total is not None
    data = [
        Datum(cell.codec),
        Datum(f"{cell.streams} streams", cell.streams),
        Datum(seconds(total.median), total.median),
        Datum(f"[{seconds(total.low)} {seconds(total.high)}]", total.low, total.kind),
        Datum({"best": "◀ best", "tied": "tied"}.get(mark, ""), tone="mark"),
        quantity(cell.ratio if cell.sized else None, two),
        quantity(cell.cpu_s_per_gib if cell.sized else None, two),
    ]
    return Line(data, tone=mark)
