"""`savemark compare`: runs cell by cell, as data, as Markdown and on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from savemark import escape
from savemark.errors import usage
from savemark.records.contract import differences
from savemark.report import columns, sides
from savemark.report.columns import Column
from savemark.report.document import Table
from savemark.report.grid import labelled, print_table
from savemark.report.markdown import table as markdown_table
from savemark.report.sides import Side, cell
from savemark.report.text import both, change, gbs, p_text, seconds
from savemark.stats.effect import Effect
from savemark.stats.pairs import Pair, compare
from savemark.stats.repeats import ALPHA, repeats_needed

VERDICTS = ("slower", "faster", "not told apart", "too few repeats")
HOW = (
    "change = median time against A’s, negative is faster; [95 %] is a bootstrap interval; p is of "
    "the exact Mann-Whitney test, Holm-corrected over {count}. {runs}"
)
RUNS = (
    "All of it holds for these very runs: how much one run differs from the next is not in it "
    "(`savemark gate` with several baselines knows)."
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs A, B, … and every cell that they share with A."""

    runs: list[Side]
    pairs: list[list[Pair]]  # one list per run after A

    @property
    def tests(self) -> int:
        """How many tests Holm's correction counts."""
        return sum(map(len, self.pairs))


def comparison(folders: Sequence[Path], *, show_blocked: bool = False) -> Comparison:
    """Read the runs and compare all with the first."""
    if len(folders) < 2:
        raise usage("a comparison needs two runs", "savemark compare BASE OTHER")
    runs = sides.letters(folders, show_blocked=show_blocked)
    base, *others = runs
    found = Comparison(runs, compare(base.measured.times, [o.measured.times for o in others]))
    for other, pairs in zip(others, found.pairs, strict=True):
        if not pairs:
            raise usage(
                f"{base.run.folder} and {other.run.folder} share no cell: "
                f"{_examples(base)} against {_examples(other)}",
                "compare runs of one study; of several targets, name them alike with LABEL=TARGET",
            )
    return found


def _examples(run: Side) -> str:
    return both([f"`{cell(key)}`" for key in run.measured.times], 3)


def as_json(found: Comparison) -> dict[str, Any]:
    """Return the comparison as data."""
    base = found.runs[0]
    return {
        "schema": 1,
        "base": base.as_json(),
        "others": [
            {
                **other.as_json(),
                "differences": [d.as_json() for d in differences(base.run, other.run)],
                "only_in_base": [key._asdict() for key in _only(base, other)],
                "only_here": [key._asdict() for key in _only(other, base)],
                "cells": [columns.fields(PAIR, pair) for pair in pairs],
            }
            for other, pairs in zip(found.runs[1:], found.pairs, strict=True)
        ],
        "tests": found.tests,
        "alpha": ALPHA,
        "repeats_needed": repeats_needed(found.tests),
    }


def markdown(found: Comparison) -> str:
    """Return the comparison as Markdown."""
    base, *others = found.runs
    runs = [f"* **{run.name}** {escape.markdown(run.title)}" for run in found.runs]
    parts = ["# Comparison", "", *runs, ""]
    for other, pairs in zip(others, found.pairs, strict=True):
        parts += [f"## {other.name} against {base.name}: {_summary(pairs)}", ""]
        notes = sides.markdown_notes(_notes(found, base, other, pairs))
        listed = sides.markdown_differences(base, other) + notes
        parts += [*listed, ""] if listed else []
        parts += [markdown_table(_table(base, other, pairs))]
    return "\n".join([*parts, _how(found), ""])


def show(found: Comparison, console: Console) -> None:
    """Print the comparison."""
    base, *others = found.runs
    for run in found.runs:
        labelled(console, run.name, run.title, "bold")
    for other, pairs in zip(others, found.pairs, strict=True):
        console.print()
        console.print(Text(f"{other.name} against {base.name}: {_summary(pairs)}", "bold"))
        sides.print_differences(console, base, other)
        for note in _notes(found, base, other, pairs):
            labelled(console, "note", note, "cyan")
        console.print()
        print_table(console, _table(base, other, pairs))
    console.print()
    console.print(Text(_how(found), "dim"))


def _how(found: Comparison) -> str:
    count = f"{found.tests} tests" if found.tests > 1 else "1 test"
    return HOW.format(count=count, runs=RUNS)


def _summary(pairs: Sequence[Pair]) -> str:
    counts = Counter(pair.verdict for pair in pairs)
    cells = f"{len(pairs)} cell{'s' * (len(pairs) > 1)}"
    return f"{cells}: " + ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v])


def _notes(found: Comparison, base: Side, other: Side, pairs: Sequence[Pair]) -> list[str]:
    notes = []
    sizes = {base.measured.times[p.key].user_bytes for p in pairs}
    if sizes != {other.measured.times[p.key].user_bytes for p in pairs}:
        notes.append(f"times of {other.name} are scaled to the size of {base.name}, per byte")
    if any(pair.verdict == "too few repeats" for pair in pairs):
        needed = repeats_needed(found.tests)
        notes.append(
            f"with these repeats no test can succeed over {found.tests} cells; --repeats "
            f"{needed} in each run is enough (fewer cells need fewer)"
        )
    for a, b in ((base, other), (other, base)):
        if only := _only(a, b):
            notes.append(f"only in {a.name}: {both([cell(key) for key in only])}")
    return [*notes, *sides.left_out(base), *sides.left_out(other), *sides.shown((base, other))]


def _only(a: Side, b: Side) -> list[Any]:
    known = {**b.measured.times, **b.measured.left_out}
    return [key for key in a.measured.times if key not in known]


def _effect(effect: Effect) -> dict[str, Any]:
    return {"value": effect.value, "low": effect.low, "high": effect.high, "method": effect.method}


PAIR = (
    Column("label", lambda p: p.key.label, head="target", needs=frozenset({"labels"})),
    Column("setting", lambda p: p.key.setting, head="setting"),
    Column("phase", lambda p: p.key.phase, head="phase"),
    Column("base_s_median", lambda p: p.base.median, seconds, "{base} s"),
    Column("base_n", lambda p: p.base.n),
    Column("", lambda p: p.user_bytes / p.base.median if p.user_bytes else None, gbs, "GB/s"),
    Column("other_s_median", lambda p: p.other.median, seconds, "{other} s"),
    Column("other_n", lambda p: p.other.n),
    Column("user_bytes", lambda p: p.user_bytes),
    Column("difference_s", lambda p: _effect(p.difference)),
    Column("ratio", lambda p: _effect(p.ratio)),
    Column("", lambda p: p.ratio.value, change, "change"),
    Column("", lambda p: p.ratio.value, head="[95 %]", text=lambda p: interval(p.ratio)),
    Column(
        "",
        lambda p: p.base.n,
        head="n",
        text=lambda p: ", ".join(dict.fromkeys((str(p.base.n), str(p.other.n)))),
    ),
    Column("p", lambda p: p.p),
    Column("p_adjusted", lambda p: p.p_adjusted, p_text, "p"),
    Column("verdict", lambda p: p.verdict, head=""),
)


def _table(base: Side, other: Side, pairs: Sequence[Pair]) -> Table:
    labels = {"labels"} if any(pair.key.label for pair in pairs) else set[str]()
    own = columns.within(PAIR, frozenset(labels))
    found = columns.table("comparison", "", own, ())
    heads = [head.format(base=base.name, other=other.name) for head in found.columns]
    tones = {"slower": "slower", "faster": "faster"}
    lines = [columns.line(own, pair, tones.get(pair.verdict, "")) for pair in pairs]
    return replace(found, columns=heads, lines=lines)


def interval(ratio: Effect) -> str:
    """`[+1.0 +5.5]`, in per cent, or nothing."""
    if ratio.low is None or ratio.high is None:
        return "–"
    return f"[{change(ratio.low)[:-2]} {change(ratio.high)[:-2]}]"
