"""What a run will be, before it writes: its size, its trials, its time and its bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import savemark._engine as engine
from savemark.run.target import Target
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
    assumed = sizing.ASSUMED in rates.storages.values()
    return Forecast(
        study=sized,
        targets=targets,
        seconds=total.seconds * share,
        written_bytes=total.written * share,
        held_bytes=total.held,
        asked_repeats=study.repeats,
        assumed_bytes_per_s=sizing.ASSUMED.save if assumed else None,
        stretch=(sized.max_repeats or sized.repeats) / sized.repeats,
    )


def _limit_bytes(target: Target) -> int:
    """Return the size above which a laptop would feel it: an eighth of room or memory, 4 GiB."""
    free = target.free_bytes()
    room = sizing.MAX_BYTES if free is None else free // 8
    return min(room, _available_memory_bytes() // 8, sizing.MAX_BYTES)


def _available_memory_bytes() -> int:
    host = json.loads(engine.host(None))
    known = host["memory"]["available_bytes"], host["limits"]["cgroup_memory_bytes"]
    return min((limit for limit in known if limit), default=8 * sizing.MAX_BYTES)
