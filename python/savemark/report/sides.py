"""Runs that are held against each other: read, judged, and named by a letter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from savemark import escape
from savemark.errors import usage
from savemark.records import Run
from savemark.records.contract import HOST, OPTION, VERSION, Difference, differences
from savemark.report.analysis import analyse
from savemark.report.grid import labelled
from savemark.report.text import binary, both
from savemark.stats.cells import Key
from savemark.stats.pairs import Measured, measured

STYLES = {"contract": "bold red", HOST: "yellow", VERSION: "yellow", OPTION: "cyan"}
MEANS = {
    "contract": "not the same work or promise",
    HOST: "not the same machine",
    VERSION: "not the same software",
    OPTION: "told otherwise",
}


@dataclass(frozen=True, slots=True)
class Side:
    """One run of a comparison."""

    name: str  # A, B, …; `base`, `new` for a gate
    run: Run
    measured: Measured

    @property
    def title(self) -> str:
        """Folder, time, version, study and places in one line."""
        run, places = self.run, ", ".join(target.target for target in self.run.targets)
        when = run.started_at.replace("T", " ")[:16]
        return f"{run.folder} · {run.study_name} on {places} · {when} · savemark {run.version}"

    def as_json(self) -> dict[str, Any]:
        """Return the form under `--json`."""
        run = self.run
        found = self.measured
        left_out = [key._asdict() | {"reason": why} for key, why in found.left_out.items()]
        shown = [key._asdict() | {"check": check} for key, check in found.forbidden.items()]
        return {
            "name": self.name,
            "run_dir": str(run.folder),
            "run_id": run.run_id,
            "study": run.study_name,
            "targets": [target.target for target in run.targets],
            "started_at": run.started_at,
            "savemark_version": run.version,
            "left_out": left_out,
            "shown_although_blocked": shown,
        }


def side(name: str, folder: Path, *, show_blocked: bool = False) -> Side:
    """Read one run; a run without any cell to compare is a usage error."""
    analysis = analyse(folder, show_blocked=show_blocked)
    found = measured(analysis.results, show_blocked=show_blocked)
    if not found.times:
        why = next(iter(found.left_out.values()), "no trial finished")
        hint = f"`savemark check {folder}` says what to do"
        hint += "; --show-blocked takes the numbers all the same" if why.startswith("bl") else ""
        raise usage(f"{folder} has nothing to compare: {why}", hint)
    return Side(name, analysis.run, found)


def letters(folders: Sequence[Path], *, show_blocked: bool = False) -> list[Side]:
    """Read runs and name them A, B, and so on."""
    names = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    if len(folders) > len(names):
        raise usage(f"{len(folders)} runs are too many to compare", f"at most {len(names)}")
    resolved = [folder.resolve() for folder in folders]
    for place, folder in enumerate(resolved):
        if folder in resolved[:place]:
            raise usage(f"{folders[place]} is named twice", "name different run folders")
    return [
        side(names[place], folder, show_blocked=show_blocked)
        for place, folder in enumerate(folders)
    ]


def left_out(run: Side) -> list[str]:
    """Notes on the cells that a run cannot be compared by, a line per reason."""
    found = run.measured.left_out
    notes = []
    for why in dict.fromkeys(found.values()):
        keys = [cell(key) for key, reason in found.items() if reason == why]
        notes.append(f"left out of {run.name}, {why}: {both(keys)}")
    return notes


def shown(runs: Sequence[Side]) -> list[str]:
    """Notes on the cells that are there only because `--show-blocked` asked for them."""
    found = [pair for run in runs for pair in run.measured.forbidden.items()]
    notes = []
    for check in sorted({check for _, check in found}):
        keys = dict.fromkeys(cell(key) for key, other in found if other == check)
        notes.append(f"{check} forbids, shown because of --show-blocked: {both(list(keys))}")
    return notes


def two_targets(folder: Path, *, show_blocked: bool = False) -> tuple[Side, Side]:
    """The two targets of one run as two sides, in the order in which they were named."""
    whole = side("", folder, show_blocked=show_blocked)
    labels = [target.label for target in whole.run.targets]
    if len(labels) != 2:
        count = "1 target" if len(labels) == 1 else f"{len(labels)} targets"
        raise usage(
            f"{folder} has {count} and no --baseline is given",
            "name the runs to hold it against, or measure old and new in turns: savemark pair",
        )
    old, new = (_one(whole, label) for label in labels)
    return old, new


def _one(whole: Side, label: str) -> Side:
    found = whole.measured
    parts = (found.times, found.left_out, found.forbidden)
    own = [{k._replace(label=""): v for k, v in part.items() if k.label == label} for part in parts]
    return Side(label, whole.run, Measured(*own))  # type: ignore[arg-type]


def cell(key: Key) -> str:
    """A cell as it is called in front of a reader."""
    return " · ".join(part for part in (key.label, key.setting, key.phase) if part)


def difference_lines(base: Side, other: Side) -> list[Difference]:
    """What the two runs do not share; sizes in words."""
    found = []
    for each in differences(base.run, other.run):
        a, b = (_size(text) if each.what == "size" else text for text in (each.base, each.other))
        found.append(Difference(each.kind, each.what, a, b))
    return found


def _size(text: str) -> str:
    return binary(float(text)) if text.isdigit() else text


def print_differences(console: Console, base: Side, other: Side) -> None:
    """One line per kind of difference: what it was, what it is."""
    found = difference_lines(base, other)
    for kind in dict.fromkeys(each.kind for each in found):
        mine = [each for each in found if each.kind == kind]
        text = "; ".join(f"{d.what}: {d.base} → {d.other}" for d in mine)
        text = f"{MEANS[kind]}, {base.name} → {other.name}: {text}"
        labelled(console, kind, text, STYLES[kind])


def markdown_differences(base: Side, other: Side) -> list[str]:
    """The same as a Markdown list."""
    return [
        f"* **{d.kind}**: {escape.markdown(f'{d.what} was {d.base}, is {d.other}')}"
        for d in difference_lines(base, other)
    ]


def markdown_notes(notes: Sequence[str]) -> list[str]:
    """Notes as a Markdown list."""
    return [f"* {escape.markdown(note)}" for note in notes]
