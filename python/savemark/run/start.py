"""A new run: checks, calibration, run folder, trials. `preview` stops before the writing."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import savemark._engine as engine
from savemark import tools
from savemark.errors import usage
from savemark.places import Directory
from savemark.ranks.lead import Lead
from savemark.records import versions
from savemark.run import history, posix_probe, rest, wheels
from savemark.run import target as place
from savemark.run.entries import opening
from savemark.run.folder import RunFolder
from savemark.run.forecast import Forecast, forecast, most_bytes, race_sizes
from savemark.run.loop import Loop, Tally
from savemark.run.mounts import mounted
from savemark.run.probe import overhead, probe
from savemark.run.request import Request
from savemark.run.runner import Runner
from savemark.run.target import Target
from savemark.run.watcher import Watcher
from savemark.signals import stop_in_order
from savemark.study import sizing
from savemark.study.cost import Rates
from savemark.study.expect import too_few
from savemark.study.keys import Keys, Trial, split_ours
from savemark.study.model import Missing, Study
from savemark.study.plan import Entry, plan

RUNS = Path("savemark-runs")
# Of a budget that was given by hand.
OVERTIME = 1.1
# So many of what is unavailable for one reason are named; the report has all.
NAMED = 3


@dataclass(frozen=True)
class Outcome:
    """What a run left behind."""

    path: Path
    tally: Tally


def preview(request: Request, *, elsewhere: bool = False) -> Forecast:
    """Say what a run would do: codecs are measured in memory, the storage is assumed.

    A run that will be `elsewhere` needs no target here.
    """
    keys, request, study = _prepared(request)
    for target in request.targets:
        if not target.mount and not elsewhere:
            target.place.leftovers()
    labels = [target.label for target in request.targets]
    if not elsewhere:
        tools.require(study.tools(labels))
    one_engine = engine.Engine()
    rates = sizing.calibrate(study, keys, runner(one_engine), {})
    rates = sizing.assume_storage(rates, study, keys, labels)
    rates = replace(rates, overhead_s=overhead(study, keys, one_engine) or rates.overhead_s)
    expected = forecast(study, keys, request.targets, rates, hard_budget=request.budget is not None)
    for target in [] if elsewhere else request.targets:
        place.check_room(target, expected.held_bytes)
    return expected


def start(
    request: Request,
    watcher: Watcher,
    ranks: Lead | None = None,
    prepare: Callable[[Entry], None] = lambda _: None,
) -> Outcome:
    """Run a study from its first trial to its last, on all `ranks` that were started.

    `prepare` is called before each trial.
    """
    keys, request, study = _prepared(request)
    labels = [target.label for target in request.targets]
    tools.require(study.tools(labels))
    run_id = f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    wheels.find()
    one_engine = engine.Engine()
    with ExitStack() as stack:
        stack.enter_context(stop_in_order())
        for text in program_lines(request.targets):
            watcher.note(text)
        supervisor = stack.enter_context(mounted(request.targets))
        known = 0.0 if study.wants_size() else sizing.held_bytes(study, keys, labels)
        workspaces = open_targets(stack, request.targets, run_id, watcher, known)
        watcher.measuring()
        probed = probe(study, keys, workspaces, one_engine)
        study, asked = probed.study, replace(study, missing=[])
        for text in missing_lines(study):
            watcher.note(text)
        rates = sizing.calibrate(study, keys, runner(one_engine), workspaces)
        rates = replace(rates, overhead_s=probed.overhead_s or rates.overhead_s)
        hard = request.budget is not None
        expected = forecast(study, keys, request.targets, rates, hard_budget=hard)
        for target in request.targets:
            place.check_room(target, expected.held_bytes)
        out = request.out or _default_path(study)
        head = _head(request, asked, expected, run_id, workspaces)
        if study.race is not None:
            before = history.size_bytes(out.parent, study, request.targets)
            head["race"] = _race(expected, rates, workspaces, before)
            watcher.look(head["race"])
        if ranks:
            head |= {"ranks": ranks.as_json(), "host": {**head["host"], "ranks": ranks.facts()}}
        watcher.agree(expected)
        folder = RunFolder.create(out, head)
        stack.callback(folder.close)
        entries = _planned(expected.study, list(workspaces), head["order_seed"])
        if warning := too_few(expected.study):
            watcher.note(warning)
        watcher.announce(expected, entries)
        targets = {target.label: target for target in request.targets}
        disks = open_disks(stack, study, run_id, watcher)
        runs = Runner(one_engine, folder.path / "tools", targets, supervisor, disks, ranks)
        # What a model forecast too short ends on the clock, a little late rather than early.
        limit = OVERTIME * study.budget_s if hard else None
        loop = Loop(
            expected.study, keys, entries, folder, workspaces, runs, watcher, limit, prepare
        )
        return Outcome(folder.path, loop.run())


def _prepared(request: Request) -> tuple[Keys, Request, Study]:
    """Return what is asked for, with its targets as they are measured."""
    keys = Keys.load()
    request = request.mounting(keys)
    study = request.prepare(keys)
    return keys, replace(request, targets=place.limited(request.targets, study)), study


def program_lines(targets: list[Target]) -> list[str]:
    """Name the programs that a study starts to mount buckets: a study file may name any."""
    mounts = [target.mount for target in targets if target.mount]
    return [
        f"this study starts programs: {each.command} (and to unmount: {each.unmount})"
        for each in dict.fromkeys(replace(mount, url="") for mount in mounts)
    ]


def missing_lines(study: Study) -> list[str]:
    """Say what cannot be measured here, and why; one reason is said once."""
    reasons: dict[tuple[str, str], list[Missing]] = {}
    for each in study.missing:
        reasons.setdefault((each.rule["target"], each.reason), []).append(each)
    lines = []
    for (label, reason), some in reasons.items():
        count = sum(each.cells for each in some)
        left_out = "1 setting" if count == 1 else f"{count} settings"
        names = "; ".join(each.name for each in some[:NAMED])
        names += f" and {len(some) - NAMED} more" if len(some) > NAMED else ""
        lines.append(f"unavailable on {label}: {names} ({left_out} left out): {reason}")
    return lines


def open_targets(
    stack: ExitStack, targets: list[Target], run_id: str, watcher: Watcher, held_bytes: float
) -> dict[str, str]:
    """Check the targets, clear what killed runs of ours left, and make a folder in each."""
    leftovers = [(target, target.place.leftovers()) for target in targets]
    for target, stale in leftovers:
        for path in stale:
            place.remove(target, path)
            watcher.note(f"removed {path}, left by a savemark run that was killed")
        place.check_room(target, max(held_bytes, sizing.calibration_bytes(target.free_bytes())))
    return {
        target.label: stack.enter_context(place.open_workspace(target, run_id))
        for target in targets
    }


def open_disks(stack: ExitStack, study: Study, run_id: str, watcher: Watcher) -> dict[str, str]:
    """Make a folder in every directory that `copy` copies from and into.

    Such a directory need not be empty: nothing but our folder is touched, and that is marked.
    """
    sections = [{"trial": study.trial, "factors": study.factors}, *study.parts.values()]
    named = [(each.get("trial") or {}).get("disk") for each in sections]
    named += [disk for each in sections for disk in (each.get("factors") or {}).get("disk", [])]
    made = {}
    for disk in dict.fromkeys(disk for disk in named if disk is not None):
        path = Path(disk).absolute()
        if not path.is_dir():
            raise usage(f"--disk {disk}: no such directory", f"mkdir -p {disk}")
        for stale in Directory(path).stale():
            stale.remove_owned()
            watcher.note(f"removed {stale}, left by a savemark run that was killed")
        made[disk] = str(stack.enter_context(Directory(path).workspace(run_id)))
    return made


def runner(one_engine: engine.Engine) -> sizing.Run:
    """Return the engine as the calibration calls it."""

    def run(trial: Trial) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(one_engine.run(json.dumps(split_ours(trial)[0])))
        return record

    return run


def _head(
    request: Request, study: Study, expected: Forecast, run_id: str, workspaces: dict[str, str]
) -> dict[str, Any]:
    seed = request.seed if request.seed is not None else secrets.randbits(32)
    labels = [target.label for target in expected.targets]
    return {
        "schema": versions.RUN,
        "run_id": run_id,
        "savemark_version": engine.version(),
        "started_at": datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": list(request.command),
        "study": expected.study.as_json(),
        # The study as it was asked for, sizes still `auto`: what --resume compares with.
        "asked": study.as_json(),
        "forecast": expected.as_json(),
        "host": json.loads(engine.host(expected.targets[0].directory)),
        "targets": [_described(target, workspaces[target.label]) for target in expected.targets],
        "order_seed": seed,
        "plan": [entry.as_json() for entry in _planned(expected.study, labels, seed)],
    }


def _planned(study: Study, labels: list[str], seed: int) -> list[Entry]:
    """Return what is known beforehand to run: everything, or the first stages of a race."""
    return opening(study, labels) if study.race is not None else plan(study, labels, seed)


def _race(
    expected: Forecast, rates: Rates, workspaces: dict[str, str], before: int | None
) -> dict[str, Any]:
    """Return what a race knows before its first trial; `before` is an earlier run's size."""
    screen = race_sizes(expected.targets, rates)[0]
    disturbed = rest.disturbance(workspaces)
    return {
        "rest": {"quiet": disturbed is None, "disturbed_by": disturbed},
        "cores": rates.cores,
        "screen_bytes": screen,
        "most_bytes": most_bytes(expected.targets),
        **({"before_bytes": before} if before else {}),
    }


def _described(target: Target, workspace: str) -> dict[str, Any]:
    """Return a target with what is known of its filesystem and disk; of a bucket nothing is."""
    described: dict[str, Any] = dict(target.as_json())
    facts = json.loads(engine.host(target.directory)).get("target") if target.directory else None
    if target.mount:
        facts = {**(facts or {}), "posix": posix_probe.probe(Path(workspace))}
    return {**described, "facts": facts} if facts else described


def _default_path(study: Study) -> Path:
    """Return a new path below ./savemark-runs, named by the local time and the study."""
    if "/" in study.name or not study.name.isprintable():
        raise usage(f"a study called {study.name!r} cannot name a folder", "name one with --out")
    name = f"{datetime.now():%Y-%m-%dT%H-%M-%S}-{study.name}"
    path, number = RUNS / name, 2
    while path.exists():
        path, number = RUNS / f"{name}-{number}", number + 1
    return path
