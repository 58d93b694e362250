"""Runs that are held against each other: read, judged, and named by a letter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.table import Table as Grid
from rich.text import Text

from savemark.errors import usage
from savemark.records import Run
from savemark.records.contract import HOST, OPTION, VERSION, Difference, differences
from savemark.report.analysis import analyse
from savemark.report.table import Table
from savemark.report.words import binary
from savemark.stats.pairs import Key, Measured, measured

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
        left_out = [key._asdict() | {"reason": why} for key, why in self.measured.left_out.items()]
        return {
            "name": self.name,
            "run_dir": str(run.folder),
            "run_id": run.run_id,
            "study": run.study_name,
            "targets": [target.target for target in run.targets],
            "started_at": run.started_at,
            "savemark_version": run.version,
            "left_out": left_out,
        }


def side(name: str, folder: Path) -> Side:
    """Read one run; a run without any cell to compare is a usage error."""
    analysis = analyse(folder)
    found = measured(analysis.results)
    if not found.times:
        why = next(iter(found.left_out.values()), "no trial finished")
        raise usage(f"{folder} has nothing to compare: {why}", f"savemark report {folder}")
    return Side(name, analysis.run, found)


def letters(folders: Sequence[Path]) -> list[Side]:
    """Read runs and name them A, B, and so on."""
    names = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    if len(folders) > len(names):
        raise usage(f"{len(folders)} runs are too many to compare", f"at most {len(names)}")
    resolved = [folder.resolve() for folder in folders]
    for place, folder in enumerate(resolved):
        if folder in resolved[:place]:
            raise usage(f"{folders[place]} is named twice", "name different run folders")
    return [side(names[place], folder) for place, folder in enumerate(folders)]


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
        labelled(console, f"{kind}", f"{MEANS[kind]}, {base.name} → {other.name}: {text}", kind)


def markdown_differences(base: Side, other: Side) -> list[str]:
    """The same as a Markdown list."""
    return [
        f"* **{d.kind}**: {d.what} was {d.base}, is {d.other}"
        for d in difference_lines(base, other)
    ]


def labelled(console: Console, label: str, text: str, style: str = "") -> None:
    """A label, and its text with a hanging indent."""
    grid = Grid.grid(padding=(0, 1))
    grid.add_column(width=10, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(label, STYLES.get(style, style)), Text(text))
    console.print(grid)


def print_table(console: Console, table: Table) -> None:
    """A table of the report on a terminal; a line's css `lost` or `found` gives it a colour."""
    grid = Grid(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    first = table.lines[0].data if table.lines else []
    for place, head in enumerate(table.columns):
        number = bool(first) and first[place].number
        grid.add_column(Text(head), justify="right" if number else "left", no_wrap=True)
    for line in table.lines:
        style = {"lost": "bold red", "slower": "red", "faster": "green"}.get(line.css, "")
        grid.add_row(*(Text(datum.text) for datum in line.data), style=style)
    # In a log or a narrow window a long line is better than one with its end cut off.
    width, needed = console.width, console.measure(grid, options=_endless(console)).maximum
    console.width = max(width, needed)
    console.print(grid)
    console.width = width


def _endless(console: Console) -> ConsoleOptions:
    return console.options.update(max_width=1000)
