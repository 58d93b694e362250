"""The rest of a run that was stopped: same study, same plan, same folder."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import savemark._engine as engine
from savemark.errors import usage
from savemark.ranks.lead import Lead
from savemark.records.stored import HEAD
from savemark.run import wheels
from savemark.run.folder import RunFolder
from savemark.run.forecast import Forecast
from savemark.run.loop import Loop, Tally
from savemark.run.mounts import expand, mounted
from savemark.run.repeats import next_block
from savemark.run.request import Request
from savemark.run.runner import Runner
from savemark.run.start import Outcome, open_disks, open_targets
from savemark.run.target import Target, limited
from savemark.run.watcher import Watcher
from savemark.signals import stop_in_order
from savemark.study.keys import Keys
from savemark.study.load import load
from savemark.study.model import Study
from savemark.study.plan import Entry
from savemark.study.shipped import find


def resume(path: Path, request: Request, watcher: Watcher, ranks: Lead | None = None) -> Outcome:
    """Run what is left of the plan in `path`; refuse arguments that say another study."""
    keys = Keys.load()
    with ExitStack() as stack:
        stack.enter_context(stop_in_order())
        folder = RunFolder.reopen(path)
        stack.callback(folder.close)
        head = folder.head
        _whole(path, head)
        targets = [Target.from_json(item) for item in head["targets"]]
        targets = limited(targets, Study.from_json(head["study"]))
        _same_ranks(head, request)
        _same_study(head, request, keys)
        _same_targets(targets, request, head["study"].get("mounts") or [])
        entries = [_planned(item) for item in head["plan"]]
        left = [entry for entry in entries if entry.index not in folder.finished]
        if not left:  # stopped between two blocks, or done
            left = next_block(Study.from_json(head["study"]), entries, folder)
            entries += left
        if not left:
            return Outcome(path, Tally())
        if head["savemark_version"] != engine.version():
            began = head["savemark_version"]
            watcher.note(f"this run began with savemark {began}; this is {engine.version()}")
        forecast = _recorded(head, targets, entries, left)
        supervisor = stack.enter_context(mounted(targets))
        workspaces = open_targets(stack, targets, head["run_id"], watcher, forecast.held_bytes)
        folder.log(f"resumed with {len(left)} of {len(entries)} trials left")
        watcher.announce(forecast, left)
        wheels.find()
        disks = open_disks(stack, forecast.study, head["run_id"], watcher)
        by_label = {target.label: target for target in targets}
        runner = Runner(engine.Engine(), path / "tools", by_label, supervisor, disks, ranks)
        return Outcome(
            path, Loop(forecast.study, keys, entries, folder, workspaces, runner, watcher).run()
        )


def _whole(path: Path, head: dict[str, Any]) -> None:
    """Refuse what a run of this program has not begun: an import, or a part of `run.json`."""
    if head.get("origin") == "imported":
        raise usage(f"{path} holds imported files: there is nothing to finish", "import them anew")
    for name in ("targets", "study", "asked", "plan", "forecast", "savemark_version", "run_id"):
        if not head.get(name):
            raise usage(f"{path / HEAD} has no `{name}`", "start a new run")
    for name in ("seconds", "written_bytes", "held_bytes"):
        if not isinstance(head["forecast"], dict) or name not in head["forecast"]:
            raise usage(f"{path / HEAD} has no `forecast.{name}`", "start a new run")


def _planned(item: dict[str, Any]) -> Entry:
    """Return a trial of the plan, which `run.json` may have with less than there is today."""
    known = {
        each.name: item[each.name] for each in fields(Entry) if item.get(each.name) is not None
    }
    return Entry(**{"label": "", "repeat": 0, "factors": {}, **known})


def _recorded(
    head: dict[str, Any], targets: list[Target], entries: list[Entry], left: list[Entry]
) -> Forecast:
    """Return the recorded forecast, for the share of the trials that is left."""
    study, recorded = Study.from_json(head["study"]), head["forecast"]
    # The forecast was of the repeats that come first, not of those that were added since.
    share = len(left) / sum(entry.repeat < study.repeats for entry in entries)
    more = (study.max_repeats or 0) - 1 - max(entry.repeat for entry in entries)
    cells = len(study.cells()) * len(targets)
    return Forecast(
        study=study,
        targets=targets,
        seconds=recorded["seconds"] * share,
        written_bytes=recorded["written_bytes"] * share,
        held_bytes=recorded["held_bytes"],
        asked_repeats=study.repeats,
        assumed_bytes_per_s=None,
        stretch=1 + max(0, more) * cells / len(left),
    )


def _same_ranks(head: dict[str, Any], request: Request) -> None:
    """Refuse another number of ranks: what is left would not be comparable with what is there."""
    began, now = int((head.get("ranks") or {}).get("count", 1)), request.nodes.count
    if began != now:
        how = f"mpirun -n {began} savemark run --resume …" if began > 1 else "start it alone"
        raise usage(f"this run began with {began} ranks; {now} were started", how)


def _same_study(head: dict[str, Any], request: Request, keys: Keys) -> None:
    if not request.changes_study():
        return
    asked = Study.from_json(head["asked"])
    base = load(find(request.study), keys) if request.study else asked
    base = replace(base, buckets=asked.buckets)
    # Compared as JSON: what was read from a folder has lost nothing that matters.
    now, then = request.apply(base, keys).as_json(), asked.as_json()
    changed = [field for field in then if now[field] != then[field]]
    if changed:
        raise usage(
            f"the study has changed since this run began: {', '.join(changed)}",
            "leave the study and its options out to finish it as it was, or start a new run",
        )


def _same_targets(recorded: list[Target], request: Request, mounts: list[dict[str, str]]) -> None:
    if request.targets and expand(request.targets, mounts) != recorded:
        names = ", ".join(target.name for target in recorded)
        raise usage(f"this run measures {names}", "leave the target out, or start a new run")
