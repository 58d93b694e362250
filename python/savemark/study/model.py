"""A study as plain data, and the trials it stands for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from savemark import limits
from savemark.errors import usage
from savemark.places.bucket import CHUNK_BYTES
from savemark.records.naming import setting
from savemark.study.keys import AUTO, Keys, Trial, tool_of
from savemark.study.race import Race

# Storages that have no target.
PLACELESS = ("null", "memory")
# Workloads that save and restore on several streams.
SAVING = ("checkpoint", "process")
# The key of a ceiling that writes from the memory of the state that is saved.
FROM_STATE = "from_state"
# What a cell carries that is no key of a trial: where it runs, and which part of the study it is.
PART = "part"
NO_KEYS = ("target", PART)
# The least bytes of a chunk in a bucket.
SMALLEST_CHUNK = 1 << 20


# What is left out of a target that nothing of a study can be measured on.
EVERY = "every setting"


@dataclass(frozen=True)
class Missing:
    """What cannot be done here: levels, with the target's label, and why.

    The engine refuses it in this place, or another tool cannot express it.
    """

    rule: dict[str, Any]
    reason: str
    hint: str | None = None
    cells: int = 0  # that this leaves out

    @property
    def name(self) -> str:
        """What is missing, for people: `a, storage gds`; all of it where no factor tells."""
        return setting(self.levels) if self.levels else EVERY

    @property
    def levels(self) -> dict[str, Any]:
        """The rule without the target."""
        return {name: level for name, level in self.rule.items() if name != "target"}


@dataclass(frozen=True)
class Study:
    """A declared experiment. Sizes are bytes (or `auto`), times are seconds."""

    name: str
    title: str
    budget_s: float
    repeats: int
    order: str  # balanced or listed
    defaults: Trial
    ceilings: dict[str, Trial]
    trial: Trial
    factors: dict[str, list[Any]]
    exclude: list[dict[str, Any]]
    # Limits of honesty checks that differ from their defaults: id -> name -> value.
    checks: dict[str, dict[str, float]] = field(default_factory=dict)
    # Labels of targets that are buckets: there the storage is `object`, whatever the study says.
    buckets: list[str] = field(default_factory=list)
    # Repeat a setting until its medians are known to this share, but no more often than that.
    until: float | None = None
    max_repeats: int | None = None
    # Several workloads in one study: by name the `trial`, `factors` and `exclude` of each, over
    # those of the whole study.
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)
    # So many trials at most: where the budget does not even hold each setting once.
    most_trials: int | None = None
    # How the best setting is looked for; None: every setting is repeated alike.
    race: Race | None = None
    # How buckets are mounted (name, command, unmount): each bucket is a target once for each.
    mounts: list[dict[str, str]] = field(default_factory=list)
    # What the figures have to be, a line each: `write.bandwidth >= 80 GiB/s` (study/expect.py).
    expect: list[str] = field(default_factory=list)
    # Where a section stands in the file ("ceilings.write" -> "x.yaml:12"); for messages only.
    places: dict[str, str] = field(default_factory=dict, compare=False)

    def as_json(self) -> dict[str, Any]:
        """Return the form kept in `run.json`."""
        kept = asdict(self)
        del kept["places"]
        return kept

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Study:
        """Rebuild a study from a run folder."""
        try:
            missing = [Missing(**each) for each in kept.get("missing") or []]
            race = Race(**kept["race"]) if kept.get("race") else None
            return cls(**{**kept, "missing": missing, "race": race})
        except TypeError as error:
            what = str(error).partition(" ")[2]  # after the name of the function
            raise usage(
                f"the study in run.json cannot be read: {what}",
                "finish it with the savemark that began it, or start a new run",
            ) from None

    @property
    def workload(self) -> str:
        """The name of what the trials do."""
        return str(self.trial.get("workload", "trial"))

    def of(self, part: str | None) -> Study:
        """Return one part of the study as a study of its own; the whole where it has no parts."""
        if part is None:
            return self
        own = self.parts[part]
        return replace(
            self,
            trial={**self.trial, **own.get("trial", {})},
            factors={**self.factors, **own.get("factors", {})},
            exclude=[*self.exclude, *own.get("exclude", [])],
            parts={},
        )

    def sections(self) -> list[Study]:
        """Return the parts, each as a study; a study without parts is its only one."""
        return [self.of(name) for name in self.parts] or [self]

    def own(self, cell: Mapping[str, Any]) -> Trial:
        """Return the keys that all trials of a cell's part have."""
        return self.of(cell.get(PART)).trial

    def cells(self) -> list[dict[str, Any]]:
        """Return every combination of levels that is not excluded, part by part."""
        if self.parts:
            return [{PART: name, **cell} for name in self.parts for cell in self.of(name).cells()]
        names = list(self.factors)
        count = math.prod(len(levels) for levels in self.factors.values())
        if count > limits.MOST_CELLS:
            most = f"at most {limits.MOST_CELLS} can be measured"
            raise usage(
                f"the factors have {count} combinations of levels; {most}",
                "leave levels out, or make several studies of it",
            )
        levels = itertools.product(*self.factors.values())
        cells = [dict(zip(names, chosen, strict=True)) for chosen in levels]
        return [cell for cell in cells if not any(matches(cell, rule) for rule in self.exclude)]

    def measured(self, labels: Sequence[str]) -> list[dict[str, Any]]:
        """Return the cells that can be measured on any of these targets."""
        return [c for c in self.cells() if any(self.missing_at(at, c) is None for at in labels)]

    def tools(self, labels: Sequence[str]) -> list[str]:
        """Return the other programs that run something of this on any of these targets."""
        tools = (tool_of({**self.own(cell), **cell}) for cell in self.measured(labels))
        return list(dict.fromkeys(tool for tool in tools if tool))

    def cells_at(self, label: str) -> list[dict[str, Any]]:
        """Return the cells that can be measured on the target `label`."""
        return [cell for cell in self.cells() if self.missing_at(label, cell) is None]

    def missing_at(self, label: str, cell: Mapping[str, Any]) -> Missing | None:
        """Return why a cell cannot be measured on the target `label`; None where it can."""
        here = {**cell, "target": label}
        return next((each for each in self.missing if matches(here, each.rule)), None)

    def useful_ceilings(self) -> dict[str, Trial]:
        """Return the ceilings that can bind a cell: no codec that no cell uses."""
        used = {{**self.own(cell), **cell}.get("codec") for cell in self.cells()}
        return {
            name: trial
            for name, trial in self.ceilings.items()
            if trial.get("workload") != "codec" or trial.get("codec") in used
        }

    def trial_at(self, label: str, own: Trial, factors: Mapping[str, Any], keys: Keys) -> Trial:
        """Return one trial as it runs on the target `label`: a bucket has the storage `object`."""
        trial = self.trial_of(own, factors, keys)
        if label in self.buckets and trial.get("storage") not in PLACELESS:
            trial = {**self._in_bucket(trial), "storage": "object"}
        if self.buckets:
            # Options of the storages that this target does not have.
            foreign = keys.of_storages() - keys.accepted(trial.get("workload"), trial["storage"])
            trial = {key: value for key, value in trial.items() if key not in foreign}
        return trial

    def _in_bucket(self, trial: Trial) -> Trial:
        """Return a trial as it is in a bucket, if it does not say otherwise."""
        if trial.get("workload") not in SAVING:
            return trial
        return {"chunk_size": self._chunk(trial), **trial}

    def _chunk(self, trial: Trial) -> int:
        size, chunk = trial.get("size"), CHUNK_BYTES
        while isinstance(size, int) and chunk > SMALLEST_CHUNK and size < 2 * chunk * self._most():
            chunk //= 2
        return chunk

    def _streams(self) -> list[int]:
        """Return the numbers of streams of all cells, 1 for the one that is sequential."""
        levels = self.factors.get("streams") or [self.trial.get("streams", 4)]
        return sorted({max(int(level), 1) for level in levels})

    def _most(self) -> int:
        return self._streams()[-1]

    def ceilings_at(self, label: str) -> dict[str, Trial]:
        """Return the useful ceilings that this target can run: an object is written once.

        What saves and restores are held against is measured on several numbers of workers, and so
        `write` becomes `write/1`, `write/8` …, of which the fastest counts.
        """
        useful = self.useful_ceilings()
        if label in self.buckets:
            useful = {name: trial for name, trial in useful.items() if not _rewrites(trial)}
        names = [each for name, trial in useful.items() for each in self._forms(name, trial, label)]
        return {name: self.ceiling(name, label) for name in names}

    def _forms(self, name: str, trial: Trial, label: str) -> list[str]:
        """Return the names of a ceiling and of what else it is measured on.

        In a bucket one object at a time is no ceiling, as a save writes one per stream. Nor are as
        many as possible. In a directory it is, beside what is listed, one worker, which waits for
        no slower one, and as many as there are streams.
        """
        if trial.get("workload") != "sequential" or _rewrites(trial):
            return [name]
        if label in self.buckets:
            return [f"{name}/{streams}" for streams in self._streams()]
        if not any(self.own(cell).get("workload") in SAVING for cell in self.cells()):
            return [name]
        others = {1, self._most()} - {trial.get("workers", 1)}
        return [name, *(f"{name}/{workers}" for workers in sorted(others))]

    def at_streams(self, name: str, streams: int) -> str:
        """Return the name of the form of a ceiling that has as many workers as there are streams.

        In a bucket a ceiling has as many objects. Of a workload without workers it is the ceiling.
        """
        trial = self.ceilings[name]
        if trial.get("workload") != "sequential" or _rewrites(trial):
            return name
        return f"{name}/{streams}"

    def ceiling(self, name: str, label: str) -> Trial:
        """Return the ceiling `name`, or `name/workers`, as it is on a target."""
        if name in self.ceilings:
            return self._from_memory(self.ceilings[name])
        base, _, count = name.rpartition("/")
        trial, own, workers = self._from_memory(self.ceilings[base]), {}, int(count)
        transfer = int(trial.get("transfer_size", 0))
        if label in self.buckets:
            transfer = max(transfer, self._chunk({**self.defaults, **trial}))
            own["transfer_size"] = transfer
        elif "queue_depth" in trial:
            # As much in flight as listed, but no less than a stream has.
            in_flight = int(trial["queue_depth"]) * int(trial.get("workers", 1))
            own["queue_depth"] = max(in_flight // workers, 2)
        size = trial.get("size", self.defaults.get("size"))
        if isinstance(size, int):
            workers = min(workers, max(size // max(transfer, 1), 1))
        return {**trial, **own, "workers": workers}

    def _from_memory(self, trial: Trial) -> Trial:
        """Return a ceiling from buffers of its own where no generated state is saved.

        Beside files, a program or a state on GPUs one would take as much memory again.
        """
        generated = self.trial.get("workload") == "checkpoint"
        if generated and "state" not in {**self.defaults, **self.trial, **self.factors}:
            return trial
        return {key: value for key, value in trial.items() if key != FROM_STATE}

    def trial_of(self, own: Trial, factors: Mapping[str, Any], keys: Keys) -> Trial:
        """Return one trial: the section's own keys and levels over the defaults that it accepts."""
        trial = {**own, **{key: level for key, level in factors.items() if key not in NO_KEYS}}
        storage = trial.get("storage", self.defaults.get("storage"))
        accepted = keys.accepted(trial.get("workload"), storage)
        return {**{k: v for k, v in self.defaults.items() if k in accepted}, **trial}

    def wants_size(self) -> bool:
        """Whether any `size: auto` is left."""
        own = [section.trial for section in self.sections()]
        sections = [self.defaults, *own, *self.ceilings.values()]
        return any(section.get("size") == AUTO for section in sections)

    def with_size(self, size_bytes: int) -> Study:
        """Return the study with every `size: auto` replaced."""

        def sized(section: Trial) -> Trial:
            return {**section, "size": size_bytes} if section.get("size") == AUTO else section

        return replace(
            self,
            defaults=sized(self.defaults),
            trial=sized(self.trial),
            ceilings={name: sized(trial) for name, trial in self.ceilings.items()},
            parts={
                name: {**part, "trial": sized(part.get("trial", {}))}
                for name, part in self.parts.items()
            },
        )


def _rewrites(trial: Trial) -> bool:
    """Whether a trial writes files in another way than once, from front to back."""
    if trial.get("operation") != "write":
        return False
    once = trial.get("workload") == "sequential" and trial.get("sync", "end") == "end"
    return not once or trial.get("duration") is not None


def matches(cell: Mapping[str, Any], rule: Mapping[str, Any]) -> bool:
    """Tell whether a cell has the level, or one of the levels, that a rule names."""
    return all(
        k in cell and cell[k] in (v if isinstance(v, list) else [v]) for k, v in rule.items()
    )
