"""Runs one trial: by the engine or by another tool, in a directory or a bucket, mounted or not."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import savemark._engine as engine
from savemark.ranks.lead import Lead
from savemark.run.foreign import Foreign
from savemark.run.mounts import Supervisor
from savemark.run.target import Target
from savemark.study.keys import MOUNT_CACHE, Trial, split_ours, tool_of
from savemark.study.plan import Entry

Json = dict[str, Any]


@dataclass(frozen=True)
class Runner:
    """What all trials of a run share."""

    engine: engine.Engine
    outputs: Path  # what other tools print
    targets: Mapping[str, Target] = field(default_factory=dict)
    supervisor: Supervisor | None = None  # of the mounts
    disks: Mapping[str, str] = field(default_factory=dict)  # of `copy`: our folder in each
    ranks: Lead | None = None  # of the other processes, where a launcher started several

    def run(self, entry: Entry, trial: Trial, moved: Callable[[Json], object]) -> Json:
        """Run one trial in the workspace that it names; return its record."""
        around = self._around(entry, trial)
        if trial.get("disk") is not None:
            trial = {**trial, "disk": self.disks[trial["disk"]]}
        if self.ranks is not None:
            return self.ranks.run(self.engine, trial, moved)
        own, ours = split_ours(trial)
        if tool_of(trial):
            foreign = Foreign(self.outputs, self.engine)
            record = foreign.run(trial, f"{entry.index:05}", moved, around)
        else:
            more = (around,) if around else ()
            record = json.loads(self.engine.run(json.dumps(own), moved, *more))
            record["trial"] |= ours
        return around.complete(record) if around else record

    def _around(self, entry: Entry, trial: Trial) -> Any:
        """Return what is called around the phases, if the target is a mounted bucket."""
        target = self.targets.get(entry.label)
        if target is None or target.mount is None or self.supervisor is None:
            return None
        from savemark.run.durable import MountedPhases

        cache = str(trial.get(MOUNT_CACHE, "cold"))
        return MountedPhases(self.supervisor, target, str(trial["target"]), cache)
