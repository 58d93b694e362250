"""The one next command of a run: complete, naming only what is still open, with what it costs."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from savemark.advice.verdict import Answer, State
from savemark.checks import Remedy
from savemark.records import Run
from savemark.records.naming import LEADING, shown
from savemark.stats import Cell, TargetResult
from savemark.stats.spread import N_FOR_INTERVAL
from savemark.study.race import CONFIRM_S, LADDER

# Settings so much slower than the fastest are no longer open.
KEEP = 1.5
# What a race does before it confirms: it looks at the machine.
LOOK_S = 10.0
MOST = 4
# What takes longer than most of the usual budget says so itself, with room for what is around it.
BUDGET_S, ROOM = 90.0, 1.5
# More repeats than this in one command are not asked for.
MOST_REPEATS = 100
JOB = ("--params", "8e9", "--gpus", "1024")
# What a command of ours sets itself.
LIMITS = ("--size", "--repeats", "--budget", "--until", "--max-repeats")
REPLACED = (*(f"--{name}" for name in LEADING), *LIMITS)
OUTPUT = ("--out", "-o", "--seed")


@dataclass(frozen=True, slots=True)
class Step:
    """A command to type; what it takes, where it measures: seconds, and bytes that it writes."""

    command: str
    seconds: float | None = None
    written_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """One answer and what it is about."""

    result: TargetResult
    answer: Answer


def step(run: Run, judged: Sequence[Judged]) -> Step | None:
    """Return the command for the worst of some answers; None where there is nothing to do."""
    if run.parts:
        folders = (str(part.folder) for part in run.parts.values())
        return Step(shlex.join(["savemark", "compare", *folders]))
    if not judged:
        return _finish(run)
    order = list(State)
    worst = max(judged, key=lambda each: order.index(each.answer.state))
    if worst.answer.state is State.TRUSTED:
        # An answer may be trusted and yet leave a slower setting open.
        worst = next((each for each in judged if each.answer.unknown), worst)
    if run.origin == "imported":
        return Step(shlex.join(["savemark", "check", str(run.folder)]))
    makers = {
        Remedy.NOTHING: _advise,
        Remedy.CHECK: _check,
        Remedy.FINISH: lambda run, _: _finish(run),
        Remedy.IDLE: lambda run, _: _again(run),
        Remedy.REPEATS: _repeats,
        Remedy.LONGER: _longer,
    }
    return makers[worst.answer.remedy](run, worst)


def _advise(run: Run, judged: Judged) -> Step | None:
    cell = judged.answer.advised
    if cell is None or not {"save", "restore"} <= set(cell.phases):
        return None
    return Step(shlex.join(["savemark", "advise", str(run.folder), *JOB]))


def _check(run: Run, _: Judged) -> Step | None:
    return Step(shlex.join(["savemark", "check", str(run.folder)]))


def _finish(run: Run) -> Step | None:
    if not (run.missing or run.failed):
        return None
    return Step(shlex.join(["savemark", "run", "--resume", str(run.unfinished)]))


def _again(run: Run, times: float = 1.0, **options: str) -> Step:
    """The same run, for a machine that is idle now, or with other options and `times` the work."""
    records = [record for entry in run.entries if (record := entry.record)]
    seconds = sum(record.elapsed_ns or 0 for record in records) / 1e9
    written = sum(
        phase.stored_bytes or 0
        for record in records
        for phase in record.phases
        if phase.name in ("save", "write")
    )
    named = {f"--{name}": value for name, value in options.items()}
    if named and times * seconds > BUDGET_S:
        named["--budget"] = _budget(times * seconds)
    words = _words(run, None, named, (*named, *OUTPUT))
    return Step(shlex.join(words), times * seconds, round(times * written))


def _budget(seconds: float) -> str:
    return f"{math.ceil(ROOM * seconds / 60)}m"


def _repeats(run: Run, judged: Judged) -> Step | None:
    """The settings that are still open, as often as will probably tell them apart."""
    answer = judged.answer
    first = answer.advised or answer.fastest
    if first is None:  # what was fastest is blocked: everything near it is open
        repeats = 2 * max((cell.n for cell in judged.result.cells), default=N_FOR_INTERVAL)
        return _again(run, 2.0, repeats=str(min(repeats, MOST_REPEATS)))
    rivals = [rival.cell for rival in answer.unknown]
    if answer.advised is None:
        rivals = _near(judged.result, first)
    more = max((rival.more or 0 for rival in answer.unknown), default=0)
    repeats = min(MOST_REPEATS, max(N_FOR_INTERVAL, first.n + (more or N_FOR_INTERVAL)))
    cells = [first, *rivals[: MOST - 1]]
    return _measure(run, judged.result, cells, repeats if answer.advised else N_FOR_INTERVAL)


def _longer(run: Run, judged: Judged) -> Step | None:
    """The fastest setting with a state so large that its shortest phase lasts a second."""
    cell = judged.answer.fastest
    if cell is None:
        return _all_longer(run, judged.result.label)
    phases = [phase for phase in cell.phases.values() if phase.user_bytes]
    if not phases:
        return _again(run)
    size = phases[0].user_bytes
    shortest = min(phase.seconds.median for phase in phases)
    return _measure(run, judged.result, [cell], N_FOR_INTERVAL, _rung(size, shortest) / size)


def _all_longer(run: Run, label: str) -> Step:
    """The same run with a larger state, where the numbers of short phases are blocked."""
    lasted = [
        (phase.elapsed_ns / 1e9, phase.user_bytes)
        for entry in run.entries
        if entry.role == "trial" and entry.label == label
        for phase in entry.phases
        if phase.user_bytes and phase.elapsed_ns
    ]
    if not lasted:
        return _again(run)
    shortest, size = min(lasted)
    larger = _rung(size, shortest)
    return _again(run, larger / size, size=shown("size", larger))


def _rung(size: int, seconds: float) -> int:
    """The size on the ladder with which what took so many seconds lasts long enough."""
    wanted = size * CONFIRM_S / seconds
    return next((each for each in LADDER if each >= wanted), LADDER[-1])


def _near(result: TargetResult, first: Cell) -> list[Cell]:
    """The settings that are not much slower, fastest first."""
    if first.total is None:
        return []
    timed = [(c.total.median, c) for c in result.cells if c.total and c is not first]
    near = [pair for pair in timed if pair[0] <= KEEP * first.total.median]
    return [cell for _, cell in sorted(near, key=lambda pair: pair[0])]


def _measure(
    run: Run, result: TargetResult, cells: Sequence[Cell], repeats: int, larger: float = 1.0
) -> Step | None:
    """A run of these settings alone, with a state that is so many times larger."""
    levels = _levels(run, cells)
    if levels is None:
        return _again(run)
    options = {f"--{name.replace('_', '-')}": ",".join(each) for name, each in levels.items()}
    if size := _size(run, cells[0], larger):
        options["--size"] = size
    options["--repeats"] = str(repeats)
    whole = [cell for cell in result.cells if _within(cell, levels)]
    seconds = sum(cell.total.median for cell in whole if cell.total) * larger
    stored = sum(_stored(cell) for cell in whole) * larger
    for name in ("write", "read_checked"):
        if ceiling := result.ceilings.get(name):
            seconds += ceiling.seconds.median * larger
            stored += ceiling.rate * ceiling.seconds.median * larger if name == "write" else 0
    whole_s = repeats * seconds + (LOOK_S if run.study.race else 0.0)
    if whole_s > BUDGET_S:
        options["--budget"] = _budget(whole_s)
    replaced = (*REPLACED, *options, *OUTPUT)
    command = shlex.join(_words(run, result.label, options, replaced))
    return Step(command, whole_s, round(repeats * stored))


def _levels(run: Run, cells: Iterable[Cell]) -> dict[str, list[str]] | None:
    """The levels of each factor that these settings have; None where options cannot say them."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        named = cell.factors or cell.leading
        for name, level in named.items():
            text = shown(name, "none" if level is None else level)
            if name == "part" or "," in text:
                return None
            if text not in found.setdefault(name, []):
                found[name].append(text)
    return None if run.study.parts else found


def _within(cell: Cell, levels: dict[str, list[str]]) -> bool:
    """Whether a setting is one of those that these levels make."""
    named = cell.factors or cell.leading
    return all(
        shown(name, "none" if named.get(name) is None else named[name]) in each
        for name, each in levels.items()
    )


def _size(run: Run, cell: Cell, larger: float) -> str:
    """The size of the state as an option; empty where it is not one number."""
    size = run.option("size") if isinstance(run.option("size"), int) else None
    size = (run.race and run.race.size_bytes) or size
    if size is None and "save" in cell.phases:
        size = cell.phases["save"].user_bytes
    return shown("size", round(size * larger)) if isinstance(size, int) and size else ""


def _stored(cell: Cell) -> int:
    """Bytes that one trial writes."""
    return sum(p.stored_bytes for name, p in cell.phases.items() if name in ("save", "write"))


def _words(
    run: Run, label: str | None, options: dict[str, str], replaced: Sequence[str]
) -> list[str]:
    """The command of the run with other options, on one of its targets or on all of them."""
    own = list(run.command)
    if own[1:2] == ["run"] and not {"--resume", "--emit"} & {w.split("=")[0] for w in own}:
        kept = _without(own[2:], replaced)
        others = [t for t in run.targets if label is not None and t.label != label]
        away = {name for t in others for name in (t.target, t.label, f"{t.label}={t.target}")}
        words = ["savemark", "run", *(word for word in kept if word not in away)]
    else:
        study = [] if run.study_name == "quick" else [run.study_name]
        places = [t for t in run.targets if label is None or t.label == label]
        words = ["savemark", "run", *study, *(f"{t.label}={t.target}" for t in places)]
    return [*words, *(word for name, value in options.items() for word in (name, value))]


def _without(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """Words of a command without some options and their values."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in options:
            next(rest, None)
        elif word.split("=")[0] not in options:
            kept.append(word)
    return kept
