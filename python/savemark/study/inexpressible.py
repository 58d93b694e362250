"""What the other tools of a study cannot express: left out of it, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from savemark.errors import Inexpressible
from savemark.study.keys import TOOL, tool_of
from savemark.study.model import PART, Missing, Study, matches

Cell = dict[str, Any]


@dataclass(frozen=True)
class Refusal:
    """A cell that its tool cannot do on the target `label`."""

    label: str
    cell: Cell
    error: Inexpressible
    where: str  # the section of the study: `trial`, `parts.NAME`


def useless(study: Study, labels: list[str], refusals: list[Refusal]) -> Refusal | None:
    """Return the first refusal of a tool that can do nothing of the study; None where all can."""
    able = {
        tool_of({**study.own(cell), **cell})
        for label in labels
        for cell in study.cells()
        if not any(each.label == label and each.cell == cell for each in refusals)
    }
    tools = ((tool_of({**study.own(each.cell), **each.cell}), each) for each in refusals)
    return next((each for tool, each in tools if tool not in able), None)


def missing(study: Study, refusals: list[Refusal]) -> list[Missing]:
    """Return what is left out, in as few rules as say it: one per part, target and reason."""
    groups: dict[tuple[object, ...], list[Refusal]] = {}
    for each in refusals:
        same = each.label, each.cell.get(PART), each.cell.get(TOOL), each.error.any_value
        groups.setdefault(same, []).append(each)
    rules = []
    for group in groups.values():
        label, error = group[0].label, group[0].error
        alike = len({each.error.message for each in group}) == 1
        reason = error.message if alike else error.any_value
        for rule in _rules(study.cells(), [each.cell for each in group]):
            count = sum(matches(each.cell, rule) for each in group)
            rules.append(Missing({**rule, "target": label}, reason, error.hint, count))
    return rules


def _rules(all_cells: list[Cell], cells: list[Cell]) -> list[Cell]:
    """Return the shortest rule that only these cells match; where there is none, each cell."""

    def only_these(rule: Cell) -> bool:
        return sum(matches(cell, rule) for cell in all_cells) == len(cells)

    names = list(cells[0])
    rule = {name: list(dict.fromkeys(cell[name] for cell in cells)) for name in names}
    if not only_these(rule):
        return cells
    for name in names:
        less = {other: levels for other, levels in rule.items() if other != name}
        if name not in (PART, TOOL) and only_these(less):
            rule = less
    return [{name: lv[0] if len(lv) == 1 else lv for name, lv in rule.items()}]
