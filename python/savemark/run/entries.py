"""The entries of a race: its look, its short trials, and what they need to know of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from savemark.run.folder import Json
from savemark.study.model import Study
from savemark.study.plan import Entry

LOOKS = 5  # how often the look measures what bounds a setting


def opening(study: Study, labels: Sequence[str]) -> list[Entry]:
    """Return the first entries: the look, and the short trials of what no codec bounds."""
    entries = []
    for label in labels:
        target = target_level(labels, label)
        look = [name for name in study.useful_ceilings() if name not in moving_ceilings(study)]
        look = [name for name in look if name in study.ceilings_at(label)]
        for repeat in range(min(LOOKS, study.repeats)):
            entries += [Entry(0, label, "ceiling", name, repeat, target) for name in look]
        if is_small(study):
            continue
        plain = [cell for cell in study.cells_at(label) if not is_coded(study, cell)]
        entries += [short_trial(study, label, {**target, **cell}) for cell in plain]
    return numbered(entries, 0)


def is_coded(study: Study, cell: Mapping[str, Any]) -> bool:
    """Whether a setting's codec works on each byte."""
    return {**study.own(cell), **cell}.get("codec", "none") not in (None, "none", "tar")


def moving_ceilings(study: Study) -> list[str]:
    """Return the ceilings that move as much as the trials do: they are measured beside those.

    One that says its own size is about the machine, whatever is saved: the look measures it.
    """
    return [name for name, trial in study.useful_ceilings().items() if "size" not in trial]


def is_small(study: Study) -> bool:
    """Whether all settings can be confirmed: then there is nothing to screen, if a size is said."""
    assert study.race is not None
    return not study.wants_size() and len(study.cells()) <= study.race.finalists + 1


def short_trial(study: Study, label: str, factors: Json) -> Entry:
    """Return the short trial of a setting."""
    return Entry(0, label, "screen", study.workload, 0, factors)


def target_level(labels: Sequence[str], label: str) -> Json:
    """One target is no factor: there is nothing to compare it with."""
    return {"target": label} if len(labels) > 1 else {}


def without_target(factors: Mapping[str, Any]) -> Json:
    """Return the levels of a setting without the target."""
    return {name: level for name, level in factors.items() if name != "target"}


def streams_of(cell: Mapping[str, Any]) -> int:
    """Return how many streams a setting has."""
    return int(cell.get("streams", 4))


def numbered(entries: Sequence[Entry], start: int) -> list[Entry]:
    """Return the entries with their places in the plan, from `start` on."""
    return [replace(entry, index=start + place) for place, entry in enumerate(entries)]
