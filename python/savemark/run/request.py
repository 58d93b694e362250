"""What the command line asked for, and the study that this makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import savemark._engine as engine
from savemark.errors import usage
from savemark.gpus import is_on_gpus
from savemark.ranks.nodes import Nodes
from savemark.run import ranked
from savemark.run.mounts import expand
from savemark.run.target import Target
from savemark.study import expect, until
from savemark.study.keys import Keys
from savemark.study.load import load
from savemark.study.model import Study
from savemark.study.overrides import override
from savemark.study.plan import validate
from savemark.study.shipped import find


@dataclass(frozen=True)
class Request:
    """The arguments of `savemark run`; None is "not said"."""

    study: str | None
    targets: list[Target]
    flags: Mapping[str, str]  # keys of the trial, as typed
    budget: str | None = None
    repeats: int | None = None
    until: str | None = None
    max_repeats: int | None = None
    seed: int | None = None  # of the order
    out: Path | None = None
    command: tuple[str, ...] = ()
    expect: tuple[str, ...] = ()  # besides what the study expects
    made: Study | None = None  # the study, where it is in no file or was read already
    nodes: Nodes = field(default_factory=Nodes.alone)  # with the ranks that were started

    def changes_study(self) -> bool:
        """Whether any part of the study was said."""
        parts = (self.study, self.flags, self.budget, self.repeats, self.until, self.max_repeats)
        return any((*parts, self.expect))

    def apply(self, study: Study, keys: Keys) -> Study:
        """Return `study` with the flags over it."""
        changed = override(study, self.flags, keys)
        if self.budget is not None:
            changed = replace(changed, budget_s=self._budget_s(self.budget))
        changed = replace(changed, repeats=self.repeats or changed.repeats)
        expectations = [expect.parse(text).text for text in self.expect]
        changed = replace(changed, expect=list(dict.fromkeys([*changed.expect, *expectations])))
        changed = ranked.with_ranks(changed, self.nodes)
        return _with_size_of_state(self._adaptive(changed))

    def _adaptive(self, study: Study) -> Study:
        """Return the study with its rule for stopping, its least and its greatest repeats."""
        rule = study.until if self.until is None else until.parse(self.until)
        if rule is None:
            if self.max_repeats:
                raise usage("--max-repeats caps nothing", "add --until 'ci<3%'")
            # A race repeats until its medians are known; a number that was given is that number.
            return replace(study, max_repeats=self.repeats) if study.race else study
        repeats = max(until.LEAST_REPEATS, study.repeats)
        most = self.max_repeats or study.max_repeats or max(until.MOST_REPEATS, repeats)
        if most < repeats:
            raise usage(
                f"--max-repeats {most} is below the {repeats} repeats that come first",
                f"--max-repeats {repeats} or more; --until needs {until.LEAST_REPEATS}",
            )
        return replace(study, until=rule, repeats=repeats, max_repeats=most)

    @staticmethod
    def _budget_s(text: str) -> float:
        try:
            return engine.parse_span(text)
        except engine.EngineError as error:
            raise usage(f"--budget: {error.message}", error.hint) from None

    def mounting(self, keys: Keys) -> Request:
        """Return the request with each bucket once for every mount of the study."""
        base = self._base(keys)
        return replace(self, targets=expand(self.targets, base.mounts), made=base)

    def _base(self, keys: Keys) -> Study:
        return self.made or load(find(self.study or "quick"), keys)

    def prepare(self, keys: Keys) -> Study:
        """Return the study asked for, every setting of it checked by the engine."""
        base = self._base(keys)
        if not self.targets:
            raise usage("no directory to measure", "for example: savemark run /mnt/scratch")
        study = self.apply(base, keys)
        study = replace(study, buckets=[target.label for target in self.targets if target.url])
        ranked.check(study, keys, self.targets, self.nodes)
        missing = validate(study, keys, [(target.label, target.name) for target in self.targets])
        expect.check(study, [target.label for target in self.targets])
        return replace(study, missing=missing)


def _with_size_of_state(study: Study) -> Study:
    """Return the study with the size of a state from a directory, which the engine takes anyway.

    Written here, the forecast knows it, and a state that changed cannot be resumed.
    """
    state = study.trial.get("state")
    if state is None or is_on_gpus(state):
        return study
    files = [path for path in Path(state).rglob("*") if path.is_file()]
    if not files:
        raise usage(f"state: {state} holds no files", "name a directory whose files to save")
    size = sum(path.stat().st_size for path in files)
    return replace(study, trial={**study.trial, "size": size})
