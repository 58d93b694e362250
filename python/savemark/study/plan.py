"""The trials of a run in the order in which they run."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from savemark import limits
from savemark.errors import Inexpressible, SavemarkError, from_exception, usage
from savemark.records.naming import setting
from savemark.study import inexpressible
from savemark.study.inexpressible import Refusal
from savemark.study.keys import Keys, Trial, resolve
from savemark.study.model import PART, Missing, Study
from savemark.study.order import blocks

# The smallest size that `auto` chooses.
SMALLEST_AUTO_BYTES = 16 << 20


def stage(entries: Sequence[Entry]) -> str:
    """Return which stage of a race these entries begin, for people."""
    roles = {entry.role for entry in entries}
    return "confirm" if "trial" in roles else "screen" if roles == {"screen"} else "look"


@dataclass(frozen=True)
class Entry:
    """One trial of the plan. `repeat` counts from 0; `label` names the target."""

    index: int
    label: str
    role: str  # trial or ceiling
    name: str
    repeat: int
    factors: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return the form kept in `run.json`."""
        return asdict(self)

    @property
    def setting(self) -> str:
        """What runs, for people: `zstd × 4` or `read ceiling`."""
        if self.role == "ceiling":
            return f"{self.name} ceiling"
        own = {name: level for name, level in self.factors.items() if name != "target"}
        name = setting(own) if own else self.name
        return f"{name} on {self.label}" if "target" in self.factors else name

    def trial(self, study: Study, keys: Keys) -> Trial:
        """Return the trial's keys, without the target."""
        is_ceiling = self.role == "ceiling"
        own = study.ceiling(self.name, self.label) if is_ceiling else study.own(self.factors)
        return study.trial_at(self.label, own, self.factors, keys)


def block(study: Study, labels: list[str], repeat: int = 0) -> list[Entry]:
    """Return every setting and every ceiling once, on every target, as listed."""
    entries = []
    for label in labels:
        # One target is no factor: there is nothing to compare it with.
        target = {"target": label} if len(labels) > 1 else {}
        named = [("ceiling", name, target) for name in study.ceilings_at(label)]
        cells = study.cells_at(label)
        named += [("trial", study.of(c.get(PART)).workload, {**target, **c}) for c in cells]
        entries += [Entry(0, label, role, name, repeat, factors) for role, name, factors in named]
    return entries


def plan(study: Study, labels: list[str], seed: int) -> list[Entry]:
    """Return all blocks, each in an order of its own: a slow hour hits every setting alike.

    Block follows block, so every setting is covered before any is repeated.
    """
    first, entries = block(study, labels), list[Entry]()
    if study.repeats * len(first) > limits.MOST_TRIALS and study.most_trials is None:
        raise usage(
            f"{study.repeats} repeats of this study are more than {limits.MOST_TRIALS} trials",
            "fewer repeats, or fewer levels",
        )
    for repeat, order in enumerate(_orders(study, len(first), random.Random(seed))):
        entries += [replace(first[at], repeat=repeat) for at in order]
    entries = entries[: study.most_trials]
    return [replace(entry, index=index) for index, entry in enumerate(entries)]


def extra_block(study: Study, labels: list[str], seed: int, repeat: int) -> list[Entry]:
    """Return one more repeat of every setting, in an order of its own; no ceilings."""
    trials = [entry for entry in block(study, labels, repeat) if entry.role == "trial"]
    order = next(iter(_orders(study, len(trials), random.Random(f"{seed}/{repeat}"))))
    return [trials[at] for at in order]


def _orders(study: Study, count: int, rng: random.Random) -> list[list[int]]:
    """Return the order of each block: balanced for what one trial leaves behind for the next.

    A part of the settings is a sample of all of them, not the first ones.
    """
    if study.order == "listed" and study.most_trials is None:
        return [list(range(count))] * study.repeats
    repeats = study.repeats
    if study.most_trials is not None:
        repeats = min(repeats, -(-study.most_trials // max(count, 1)))
    return blocks(count, repeats, rng)


def validate(study: Study, keys: Keys, targets: list[tuple[str, str]]) -> list[Missing]:
    """Let the engine check every setting and ceiling before anything runs.

    Return what other tools cannot express of it; a tool that can do nothing at all is an error.
    """
    from savemark._engine import EngineError

    if not study.cells():
        raise usage(f"study {study.name}: `exclude` leaves no setting")
    sized = study.with_size(SMALLEST_AUTO_BYTES)
    refusals: list[Refusal] = []
    for label, target, where, own, factors in _sections(sized, targets):
        try:
            resolve(sized.trial_at(label, own, factors, keys), target)
        except Inexpressible as error:
            refusals.append(Refusal(label, dict(factors), error, where))
        except (EngineError, SavemarkError) as error:
            raise _located(study, where, factors, error) from None
    if none := inexpressible.useless(study, [label for label, _ in targets], refusals):
        raise _located(study, none.where, none.cell, none.error)
    return inexpressible.missing(study, refusals)


def _located(
    study: Study, where: str, factors: Mapping[str, Any], error: Exception
) -> SavemarkError:
    """Return the error with the section and the setting that it is of."""
    shown = from_exception(error)
    assert shown is not None
    place = f"{study.places[where]}: " if where in study.places else ""
    which = f" ({setting(factors)})" if factors else ""
    return usage(f"{place}{where}{which}: {shown.message}", shown.hint)


def _sections(
    study: Study, targets: list[tuple[str, str]]
) -> Iterator[tuple[str, str, str, Trial, Mapping[str, Any]]]:
    for label, target in targets:
        for cell in study.cells():
            where = f"parts.{cell[PART]}" if PART in cell else "trial"
            yield label, target, where, study.own(cell), cell
        for name, trial in study.ceilings_at(label).items():
            yield label, target, f"ceilings.{name}", trial, {}
