"""A study on several ranks: how many each trial has, and what cannot be shared out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from savemark.errors import usage
from savemark.ranks.nodes import Nodes
from savemark.run.target import Target
from savemark.study.keys import PLACES, RANKS, Keys, Trial, tool_of
from savemark.study.model import Study


def with_ranks(study: Study, nodes: Nodes) -> Study:
    """Return the study with the number of ranks that were started, if it says none.

    Written there it is known to the forecast, and a run cannot be resumed with another number.
    """
    if nodes.count == 1 or any(_says(study, key) for key in PLACES):
        return study
    return replace(study, defaults={**study.defaults, RANKS: nodes.count})


def check(study: Study, keys: Keys, targets: Sequence[Target], nodes: Nodes) -> None:
    """Refuse, as a usage error, what the ranks that were started cannot run."""
    mounted = next((target for target in targets if target.mount), None)
    if nodes.count > 1 and mounted is not None:
        raise usage(
            f"{mounted.label}: savemark mounts a bucket on one node, for one process",
            "start it without mpirun, or mount the bucket on all nodes and name the directory",
        )
    for target in targets:
        for cell in study.cells():
            trial = study.trial_at(target.label, study.own(cell), cell, keys)
            _check_trial(trial, nodes)
        for trial in study.ceilings_at(target.label).values():
            _check_trial({**study.defaults, **trial}, nodes)


def _check_trial(trial: Trial, nodes: Nodes) -> None:
    tool = tool_of(trial)
    if tool and nodes.count > 1:
        raise usage(
            f"{tool} starts ranks of its own, which cannot be done inside mpirun",
            "start savemark without mpirun to run it, or leave `tool` out",
        )
    if not tool:
        nodes.choose(trial)


def _says(study: Study, key: str) -> bool:
    """Whether any part of a study names the key."""
    sections = [study.defaults, study.trial, study.factors, *study.ceilings.values()]
    for part in study.parts.values():
        sections += [part.get("trial") or {}, part.get("factors") or {}]
    return any(key in section for section in sections)
