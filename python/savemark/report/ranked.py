"""Several ranks: which of them, and which node, keeps the others waiting."""

from __future__ import annotations

import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.document import Datum, Line, Table
from savemark.report.text import seconds

NOTE = (
    "Time of the slowest rank and of the slowest node over that of the median rank of the same "
    "trial (medians over repeats): one that is always the same is a slow node or target. "
    "Start: how far apart the ranks left the start barrier. Every time is by the rank’s own clock."
)
# Within so much of each other, nobody is slow.
EVEN = 1.05


def tables(analysis: Analysis) -> list[Table]:
    """Return a table of settings and phases that several ranks ran; none for another run."""
    rows = analysis.ranks
    if rows.is_empty():
        return []
    skew = {
        (row["label"], row["setting"], row["phase"]): row["start_skew_ns"]
        for row in analysis.frame.filter(pl.col("start_skew_ns").is_not_null())
        .group_by("label", "setting", "phase")
        .agg(pl.col("start_skew_ns").median())
        .to_dicts()
    }
    lines = [
        _line((str(label), str(setting), str(phase)), part, skew)
        for (label, setting, phase), part in rows.group_by(
            "label", "setting", "phase", maintain_order=True
        )
    ]
    columns = ["target", "setting", "phase", "ranks", "nodes", "median s", "slowest rank", "×"]
    columns += ["slowest node", "×", "start ms"]
    return [Table("ranks", "Ranks", columns, lines, NOTE)]


def _line(
    key: tuple[str, str, str], rows: pl.DataFrame, skew: dict[tuple[str, str, str], float]
) -> Line:
    middle = float(rows["last_done_ns"].median() or 0)  # type: ignore[arg-type]
    by_rank = _slowest(rows, "rank")
    by_node = _slowest(rows, "node")
    apart = skew.get(key)
    data = [Datum(text) for text in key]
    data += [Datum(str(n), n) for n in (int(rows["of"][0]), rows["node"].n_unique())]
    data.append(Datum(seconds(middle / 1e9), middle))
    for name, slow in (by_rank, by_node):
        shown = name if slow > EVEN else "–"
        data += [Datum(shown), Datum(f"{slow:.2f}", slow)]
    data.append(Datum("–" if apart is None else f"{apart / 1e6:.2f}", apart))
    return Line(data)


def _slowest(rows: pl.DataFrame, name: str) -> tuple[str, float]:
    """Return which rank (with its node) or node is slow most of the time, and how slow."""
    each = rows.group_by(name, maintain_order=True).agg(
        slow=pl.col("slow").median(), where=pl.col("node").first()
    )
    worst = each.sort("slow", descending=True).row(0, named=True)
    who = f"{worst[name]} on {worst['where']}" if name == "rank" else str(worst[name])
    return who, float(worst["slow"])
