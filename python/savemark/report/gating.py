"""`savemark gate`: the verdict as data, as Markdown for a pull request, and on a terminal.

A new run is held against baseline runs; or, in a run that measured two targets in turns, the second
target against the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from savemark import escape
from savemark.errors import usage
from savemark.records.contract import CONTRACT, OPTION, differences
from savemark.records.head import Race
from savemark.records.naming import setting
from savemark.report import columns, sides
from savemark.report.columns import Column
from savemark.report.document import Table
from savemark.report.grid import labelled, print_table
from savemark.report.markdown import table as markdown_table
from savemark.report.sides import Side, cell
from savemark.report.text import both, change, p_text, seconds, tolerance
from savemark.stats.cells import Key
from savemark.stats.gate import POWER, Gate, GateCell, Whole, gate
from savemark.stats.turns import in_turns, repeats_for

MOST_LINES = 12  # of cells that passed, in Markdown before the fold


@dataclass(frozen=True, slots=True)
class Judgement:
    """A new run, its baselines, and the verdict."""

    new: Side
    baselines: list[Side]
    gate: Gate

    @property
    def lost(self) -> bool:
        """Whether any cell lost more than the limit, beyond chance."""
        return bool(self.gate.lost)

    @property
    def unjudged(self) -> list[str]:
        """Cells of the new run that some baseline lacks, with the reason."""
        return [f"{cell(key)} ({self._lacks(key)})" for key in self.gate.unknown]

    def _lacks(self, key: Key) -> str:
        held = (base.measured for base in self.baselines if key not in base.measured.times)
        return next(held).left_out.get(key, "not measured")

    @property
    def incomplete(self) -> list[str]:
        """Cells of the baselines that the new run cannot answer for, with the reason."""
        why, others = self.new.measured.left_out, self._screened_out()
        return [
            f"{cell(key)} ({why.get(key, 'not measured')})"
            for key in self.gate.missing
            if _named(key) not in others
        ]

    @property
    def screened_out(self) -> list[str]:
        """Settings of the baselines that the new run, a race, found too slow to be confirmed."""
        others = self._screened_out()
        found = (key for key in self.gate.missing if _named(key) in others)
        return list(dict.fromkeys(f"{key.setting} ({others[_named(key)]})" for key in found))

    def _screened_out(self) -> dict[tuple[str, str], str]:
        """Why settings, by label and name, are not confirmed; those that failed are not here."""
        race = self.new.run.race or Race()
        tried = [each for each in race.screened if each.seconds is not None and not each.kept]
        found = {}
        for each in [*tried, *race.bounded]:
            factors = dict(each.factors)
            label = str(factors.pop("target", ""))
            found[label, setting(factors)] = each.why or ""
        return found


def _named(key: Key) -> tuple[str, str]:
    return key.label, key.setting


def judge(
    new: Path,
    baselines: Sequence[Path],
    limit: float,
    noise: float,
    *,
    allow_different: bool = False,
    show_blocked: bool = False,
) -> Judgement:
    """Read the runs and hold the new one against the others."""
    folders = [found for given in baselines for found in _run_folders(given)]
    if new.resolve() in [folder.resolve() for folder in folders]:
        raise usage(f"{new} is also a baseline", "a run cannot be its own baseline")
    one = sides.side("new", new, show_blocked=show_blocked)
    others = [
        sides.side("base", folder, show_blocked=show_blocked) for folder in dict.fromkeys(folders)
    ]
    if not allow_different:
        _same_contract(one, others)
    times = [other.measured.times for other in others]
    found = gate(one.measured.times, times, limit, noise)
    if not found.cells:
        raise usage(
            f"{new} shares no cell with every baseline",
            "measure the baseline and the new run with the same study",
        )
    if len(others) == 1 and all(len(each.seconds) == 1 for each in times[0].values()):
        raise usage(
            "one baseline with one repeat shows no noise, so nothing can be judged",
            "give more baselines, or measure with --repeats 10",
        )
    return Judgement(one, others, found)


def judge_turns(run: Path, limit: float, *, show_blocked: bool = False) -> Judgement:
    """Hold the second of the two targets of one run against the first, repeat by repeat."""
    old, new = sides.two_targets(run, show_blocked=show_blocked)
    found = in_turns(old.measured.times, new.measured.times, limit)
    if not found.cells:
        raise usage(
            f"{run}: {old.name} and {new.name} share no cell with two repeats",
            f"`savemark check {run}` says what is missing; measure with --repeats 10",
        )
    least = repeats_for(1)
    if found.repeats < least:
        raise usage(
            f"{run} has {found.repeats} repeats of both targets; no test can succeed with them",
            f"measure with --repeats 10 ({repeats_for(len(found.cells))} find a loss in one cell)",
        )
    return Judgement(new, [old], found)


def _run_folders(given: Path) -> list[Path]:
    """A run folder, or the run folders in a directory."""
    if (given / "run.json").exists() or not given.is_dir():
        return [given]
    found = sorted(path.parent for path in given.glob("*/run.json"))
    if not found:
        raise usage(f"{given} holds no run folder", "name a run folder, or a directory of them")
    return found


def _same_contract(new: Side, others: Sequence[Side]) -> None:
    for other in others:
        found = [d for d in differences(other.run, new.run) if d.kind == CONTRACT]
        if found:
            text = "; ".join(f"{d.what} was {d.base}, is {d.other}" for d in found)
            raise usage(
                f"{new.run.folder} did not do the same work as {other.run.folder}: {text}",
                "measure both alike (fix --size), or --allow-different to judge all the same",
            )


def as_json(found: Judgement) -> dict[str, Any]:
    """Return the verdict as data."""
    verdict = found.gate
    return {
        "schema": 1,
        "new": found.new.as_json(),
        "baselines": [base.as_json() for base in found.baselines],
        "max_regression": verdict.limit,
        "lost": found.lost,
        "noise_between_runs": verdict.noise,
        "noise_measured": verdict.noise_measured,
        "in_turns": verdict.in_turns,
        "all_cells": _whole_json(verdict.whole),
        "incomplete": found.incomplete,
        "screened_out": found.screened_out,
        "not_judged": [key._asdict() for key in verdict.unknown],
        "differences": [d.as_json() for d in differences(found.baselines[0].run, found.new.run)],
        "cells": [columns.fields(CELL, each) for each in verdict.cells],
    }


def _whole_json(whole: Whole | None) -> dict[str, Any] | None:
    if whole is None:
        return None
    facts = ("loss", "p", "p_adjusted", "lost")
    return {name: getattr(whole, name) for name in facts} | {
        "loss_low": whole.low,
        "loss_high": whole.high,
        "chance_to_find_twice_the_limit": whole.found,
        "needed_for_nine_in_ten": whole.needed,
    }


def markdown(found: Judgement) -> str:
    """Return the verdict as a comment for a pull request: the answer first, details folded."""
    mark = "❌" if found.lost else "⚠️" if found.incomplete else "✅"
    differ = sides.markdown_differences(found.baselines[0], found.new)
    told = [line for line in differ if not line.startswith(f"* **{OPTION}**")]
    said = [*told, *sides.markdown_notes(_notes(found))]
    parts = [f"### {mark} savemark gate: {escape.markdown(headline(found))}", "", *said, ""]
    lost = found.gate.lost
    if lost:
        parts += [markdown_table(_table(lost))]
    rest = [each for each in found.gate.cells if not each.lost]
    if rest:
        title = f"{'The other ' if lost else 'All '}{len(rest)} cells"
        title = title if len(rest) > 1 else "The other cell" if lost else "The cell"
        fold = f"<details{' open' * (not lost and len(rest) <= MOST_LINES)}>"
        parts += [
            fold + f"<summary>{title}</summary>",
            "",
            markdown_table(_table(rest)),
            "</details>",
        ]
    parts += ["", f"<sub>{_how(found)}</sub>", ""]
    return "\n".join(parts)


def show(found: Judgement, console: Console) -> None:
    """Print the verdict."""
    if found.gate.in_turns:
        labelled(console, "run", found.new.title, "bold")
        labelled(console, "in turns", f"{found.new.name} against {found.baselines[0].name}")
    else:
        labelled(console, "new", found.new.title, "bold")
        for base in found.baselines:
            labelled(console, "baseline", base.title)
    sides.print_differences(console, found.baselines[0], found.new)
    console.print()
    cells = [*found.gate.lost, *(each for each in found.gate.cells if not each.lost)]
    print_table(console, _table(cells))
    console.print()
    state = "bold red" if found.lost else "bold yellow" if found.incomplete else "bold green"
    console.print(Text(headline(found), state))
    for note in _notes(found):
        labelled(console, "note", note, "cyan")
    console.print(Text(_how(found), "dim"))


def headline(found: Judgement) -> str:
    """The verdict in one sentence."""
    verdict, limit = found.gate, tolerance(found.gate.limit)
    count = len(verdict.cells)
    of = f"{count} cells" if count > 1 else "1 cell"
    if lost := verdict.lost:
        worst = f"worst {cell(lost[0].key)} {change(lost[0].loss + 1)}"
        return f"{len(lost)} of {of} lost more than {limit} ({worst})"
    if found.incomplete:
        return f"no loss above {limit} in {of}, but {len(found.incomplete)} could not be judged"
    return f"no loss above {limit} in {of}"


def _notes(found: Judgement) -> list[str]:
    verdict, notes = found.gate, []
    if found.incomplete:
        notes.append(f"not answered for by the new run: {both(found.incomplete)}")
    if found.screened_out:
        notes.append(f"too slow in the new run to be measured again: {both(found.screened_out)}")
    if verdict.unknown:
        notes.append(f"not in every baseline: {both(found.unjudged)}")
    notes += sides.shown((found.new, *found.baselines))
    if not verdict.noise_measured:
        notes.append(
            f"one baseline does not show how much runs differ from each other: "
            f"{tolerance(verdict.noise)} is assumed (--assume-noise, or what the blocks of these "
            "runs differ by, if that is more); five baselines measure it"
        )
    return notes + _blind(verdict)


def _blind(verdict: Gate) -> list[str]:
    """What this gate would not find, and what would."""
    notes, whole, twice = [], verdict.whole, tolerance(2 * verdict.limit)
    if whole and whole.found < POWER:
        notes.append(
            f"weak test: a loss of {twice} in all cells would be found in only "
            f"{whole.found * 100:.0f} of 100 runs; {_remedy(verdict, whole.needed)}"
        )
    blind = max(each.findable for each in verdict.cells)
    count = len(verdict.cells)
    if verdict.in_turns and verdict.repeats < (needed := repeats_for(count)):
        notes.append(
            f"with {verdict.repeats} repeats a loss in one of {count} cells cannot be shown, "
            f"only one in all together; --repeats {needed} can"
        )
    elif blind > 2 * verdict.limit:
        more = "more repeats" if verdict.in_turns else "more baselines or repeats"
        notes.append(
            f"a loss in one cell alone is found reliably only from {tolerance(blind)} on; "
            f"{more} or fewer cells find smaller ones"
        )
    return notes


def _remedy(verdict: Gate, needed: int | None) -> str:
    if verdict.in_turns:
        return f"--repeats {needed} find it in 90" if needed else "the machine is too noisy"
    turns = "measure old and new in turns (`savemark pair`), which cancels what hits both"
    if needed is None:
        return f"runs differ too much for any number of baselines: {turns}"
    return f"{needed} baselines find it in 90, or {turns}"


def _how(found: Judgement) -> str:
    verdict = found.gate
    if verdict.in_turns:
        return (
            f"A cell is lost if its time grew by more than {tolerance(verdict.limit)} and p < 0.05 "
            f"(exact signed ranks of {verdict.repeats} repeats, one-sided, Holm), by itself or "
            f"with all cells together. {_together(verdict)}"
        )
    runs = f"{verdict.baselines} baseline runs" if verdict.baselines > 1 else "1 baseline run"
    shown = "measured" if verdict.noise_measured else "assumed"
    return (
        f"A cell is lost if its time grew by more than {tolerance(verdict.limit)} and p < 0.05 "
        f"(one-sided, over {len(verdict.cells)} cells, Holm), by itself, beside the others, or "
        f"with all cells together. {_together(verdict)} {runs.capitalize()}; noise between runs "
        f"{tolerance(verdict.noise)} ({shown})."
    )


def _together(verdict: Gate) -> str:
    whole = verdict.whole
    assert whole is not None
    low, high = change(whole.low + 1)[:-2], change(whole.high + 1)[:-2]
    p = p_text(whole.p_adjusted)
    p = f"p {p}" if p.startswith("<") else f"p = {p}"
    return f"All cells together: {change(whole.loss + 1)} [{low} {high}], {p}."


def _bounds(cell: GateCell) -> str:
    return f"[{change(cell.low + 1)[:-2]} {change(cell.high + 1)[:-2]}]"


CELL = (
    Column("label", lambda c: c.key.label, head="target", needs=frozenset({"labels"})),
    Column("setting", lambda c: c.key.setting, head="setting"),
    Column("phase", lambda c: c.key.phase, head="phase"),
    Column("base_s", lambda c: c.base_s, seconds, "base s"),
    Column("new_s", lambda c: c.new_s, seconds, "new s"),
    Column("loss", lambda c: c.loss, lambda loss: change(loss + 1), "change"),
    Column("loss_low", lambda c: c.low),
    Column("loss_high", lambda c: c.high),
    Column("", lambda c: c.low, head="[95 %]", text=_bounds),
    Column("p", lambda c: c.p),
    Column("p_adjusted", lambda c: c.p_adjusted, p_text, "p"),
    Column("findable_loss", lambda c: c.findable),
    Column("lost", lambda c: c.lost, lambda lost: "lost" if lost else "", ""),
)


def _table(cells: Sequence[GateCell]) -> Table:
    labels = {"labels"} if any(cell.key.label for cell in cells) else set[str]()
    own = columns.within(CELL, frozenset(labels))
    lines = [columns.line(own, cell, "lost" if cell.lost else "") for cell in cells]
    return replace(columns.table("gate", "", own, ()), lines=lines)
