"""Several runs read together: one run whose targets are those of all, each named by its run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from savemark.errors import usage
from savemark.records.head import Host, Study, Target
from savemark.records.run import Entry, Run, read_run


def read_runs(arguments: Sequence[str], folder: Path) -> Run:
    """Read `[LABEL=]FOLDER…` as one run; `folder` is where its report goes.

    One argument is that run as it is, except for the name. Indices and places count on from run
    to run, so that every trial keeps one number of its own.
    """
    runs = read_each(arguments)
    return next(iter(runs.values())) if len(runs) == 1 else _joined(runs, folder)


def _joined(runs: dict[str, Run], folder: Path) -> Run:
    plan: list[Entry] = []
    entries: list[Entry] = []
    for name, run in runs.items():
        start = 1 + max((entry.index for entry in (*plan, *entries)), default=-1)
        planned = run.plan or run.entries
        plan += [_moved(entry, name, run, start) for entry in planned]
        entries += [_moved(entry, name, run, start) for entry in run.entries]
    parts = list(runs.values())
    alike = all(run.host_facts == parts[0].host_facts for run in parts)
    return Run(
        folder=folder,
        run_id=" + ".join(run.run_id for run in parts),
        version=" + ".join(dict.fromkeys(run.version for run in parts)),
        started_at=min(run.started_at for run in parts),
        command=["savemark", "report", *(f"{n}={run.folder}" for n, run in runs.items())],
        study=_study(parts),
        host=parts[0].host if alike else Host(),
        host_facts=parts[0].host_facts
        if alike
        else {name: run.host_facts for name, run in runs.items()},
        targets=[
            Target(_label(name, run, target.label), target.target)
            for name, run in runs.items()
            for target in run.targets
        ],
        order_seed=None,
        plan=plan,
        entries=entries,
        unreadable_lines=sum(run.unreadable_lines for run in parts),
        unreadable=tuple(f"{run.folder}/{why}" for run in parts for why in run.unreadable),
        origin="imported" if all(run.origin == "imported" for run in parts) else "live",
        sources=tuple(source for run in parts for source in run.sources),
        parts=runs,
    )


def read_each(arguments: Sequence[str]) -> dict[str, Run]:
    """Read `[LABEL=]FOLDER…`, each by its name, which its entries carry; names are told apart."""
    found: dict[str, Run] = {}
    for argument in arguments:
        label, equals, rest = argument.partition("=")
        if not equals or "/" in label or Path(argument).exists():
            label, rest = "", argument
        run = read_run(Path(rest))
        name = label or run.folder.resolve().name
        if name in found:
            raise usage(
                f"two runs are called `{name}`",
                "name them apart: savemark report before=FOLDER after=FOLDER",
            )
        named = [replace(entry, run=name) for entry in run.entries]
        found[name] = replace(run, entries=named, memory={})
    return found


def _label(name: str, run: Run, label: str) -> str:
    """A run of one target goes by its own name alone."""
    return name if len(run.targets) == 1 else f"{name}: {label}"


def _moved(entry: Entry, name: str, run: Run, start: int) -> Entry:
    label = _label(name, run, entry.label)
    return replace(entry, run=name, label=label, index=start + entry.index)


def _study(parts: list[Run]) -> Study:
    """What all studies say alike, and every level of every factor."""
    first = parts[0].study
    alike = {
        name: value
        for name in first.__struct_fields__
        if all(getattr(run.study, name) == (value := getattr(first, name)) for run in parts)
    }
    names = dict.fromkeys(name for run in parts for name in run.study.factors)
    factors = {
        name: list(
            dict.fromkeys(level for run in parts for level in run.study.factors.get(name, []))
        )
        for name in names
    }
    name = " + ".join(dict.fromkeys(run.study_name for run in parts))
    return Study(**{**alike, "name": name, "factors": factors})
