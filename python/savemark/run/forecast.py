"""What a run will be, before it writes: its size, its trials, its time and its bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import savemark._engine as engine
from savemark.run.target import Target
from savemark.study import race as rules
from savemark.study import sizing
from savemark.study.cost import Rates
from savemark.study.keys import Keys
from savemark.study.model import Study
from savemark.study.plan import block


@dataclass(frozen=True)
class Forecast:
    """A study whose sizes are settled, and what it takes."""

    study: Study
    targets: list[Target]
    seconds: float
    written_bytes: float
    held_bytes: float  # at one time
    asked_repeats: int  # before the budget cut them down
    assumed_bytes_per_s: float | None  # of a storage that was not measured
    stretch: float = 1.0  # how many times more it is if every setting is repeated to the cap

    def as_json(self) -> dict[str, float]:
        """Return the figures kept in `run.json`."""
        figures: dict[str, float] = {
            "seconds": round(self.seconds, 3),
            "written_bytes": int(self.written_bytes),
            "held_bytes": int(self.held_bytes),
        }
        if self.study.until is not None:
            figures["most_seconds"] = round(self.seconds * self.stretch, 3)
            figures["most_written_bytes"] = int(self.written_bytes * self.stretch)
        return figures

    @property
    def over_budget(self) -> bool:
        """Whether the study takes noticeably longer than its budget."""
        return self.seconds > 1.1 * self.study.budget_s

    @property
    def size_bytes(self) -> int | None:
        """The size of one checkpoint (or file), where all trials share it."""
        sections = self.study.sections()
        sizes = {each.trial.get("size", each.defaults.get("size")) for each in sections}
        size = sizes.pop() if len(sizes) == 1 else None
        varied = any("size" in each.factors for each in sections)
        return size if isinstance(size, int) and not varied else None


def forecast(
    study: Study, keys: Keys, targets: list[Target], rates: Rates, *, hard_budget: bool
) -> Forecast:
    """Settle the size; with a budget given by hand, cut the repeats down to it."""
    labels = [target.label for target in targets]
    if study.race is not None:
        return _of_race(study, keys, targets, rates)
    sized = study
    if study.wants_size():
        limit = min(_limit_bytes(target) for target in targets)
        sized = study.with_size(sizing.choose(study, keys, labels, rates, limit))
    total = sizing.total(sized, keys, labels, rates)
    fitting = max(1, int(study.budget_s / (total.seconds / study.repeats)))
    if hard_budget and total.seconds > study.budget_s:
        sized = replace(sized, repeats=min(study.repeats, fitting))
    if hard_budget and study.max_repeats:
        most = min(study.max_repeats, max(sized.repeats, fitting))
        sized = replace(sized, max_repeats=most)
    share = sized.repeats / study.repeats
    once = total.seconds / study.repeats
    if hard_budget and once > study.budget_s:
        planned = len(block(sized, labels))
        most = max(1, int(planned * study.budget_s / once))
        sized, share = replace(sized, most_trials=most), most / planned / study.repeats
    return Forecast(
        study=sized,
        targets=targets,
        seconds=total.seconds * share,
        written_bytes=total.written * share,
        held_bytes=total.held,
        asked_repeats=study.repeats,
        assumed_bytes_per_s=_assumed(rates),
        stretch=(sized.max_repeats or sized.repeats) / sized.repeats,
    )


def _of_race(study: Study, keys: Keys, targets: list[Target], rates: Rates) -> Forecast:
    """Forecast a race: what runs is decided while it runs, within the budget where that holds it.

    The baseline and one finalist have all their repeats, however long that takes.
    """
    labels = [target.label for target in targets]
    screen, confirm = race_sizes(targets, rates)
    repeats = study.repeats
    one, each = (
        [sizing.entry_cost(entry, study.with_size(size), keys, rates) for entry in entries]
        for size, entries in (
            (screen, [e for e in block(study, labels) if e.role == "trial"]),
            (confirm, [e for e in block(study, labels) if e.role == "trial"]),
        )
    )
    least = 4 * repeats * min(cost.seconds for cost in each) * len(labels)
    most = (len(labels) * (study.race.finalists + 2) if study.race else 0) * repeats
    return Forecast(
        study=study,
        targets=targets,
        seconds=max(study.budget_s, least),
        written_bytes=sum(c.written for c in one) + most * max(c.written for c in each),
        held_bytes=max(cost.held for cost in each),
        asked_repeats=study.repeats,
        assumed_bytes_per_s=_assumed(rates),
    )


def _assumed(rates: Rates) -> float | None:
    return sizing.ASSUMED.save if sizing.ASSUMED in rates.storages.values() else None


def race_sizes(targets: list[Target], rates: Rates) -> tuple[int, int]:
    """Return the sizes of a short trial and of one that counts, as far as the look can tell."""
    most = most_bytes(targets)
    rate = max((max(each.save, each.restore) for each in rates.storages.values()), default=1e9)
    return rules.screen_bytes(rate, most), rules.confirm_bytes(rate, most)


def most_bytes(targets: list[Target]) -> int:
    """Return the size that room and memory hold: half of what is free, and the state twice."""
    free = [free_bytes for target in targets if (free_bytes := target.free_bytes()) is not None]
    return min(_available_memory_bytes() // 3, *(each // 2 for each in free), rules.LADDER[-1])


def _limit_bytes(target: Target) -> int:
    """Return the size above which a laptop would feel it: an eighth of room or memory, 4 GiB."""
    free = target.free_bytes()
    room = sizing.MAX_BYTES if free is None else free // 8
    return min(room, _available_memory_bytes() // 8, sizing.MAX_BYTES)


def _available_memory_bytes() -> int:
    host = json.loads(engine.host(None))
    known = host["memory"]["available_bytes"], host["limits"]["cgroup_memory_bytes"]
    return min((limit for limit in known if limit), default=8 * sizing.MAX_BYTES)
