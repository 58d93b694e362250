"""The verdict on one target: what to use, how sure that is, and what is still open."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from savemark.advice.doubts import Doubt, Fired, doubt
from savemark.checks import Remedy, registered
from savemark.records import Run
from savemark.records.naming import LEADING
from savemark.stats import TOTAL, Cell, Spread, TargetResult
from savemark.stats.equivalence import MARGIN, Against, against_best
from savemark.stats.results import competes
from savemark.stats.spread import N_FOR_INTERVAL

# Of those that are as fast, who is so near to the fastest may cost less CPU instead.
NEAR = 1.02
# A shorter phase is mostly its start and its end.
SHORTEST_S = 0.5
BASELINE = {name: leading.baseline for name, leading in LEADING.items()}
# A ceiling that is measured more often, or a phase that lasts longer, may make the number valid.
OF_BLOCK = {"HC-03": Remedy.REPEATS, "HC-13": Remedy.LONGER}


class State(StrEnum):
    """How much an answer can be relied on, best first."""

    TRUSTED = "trusted"
    PROVISIONAL = "provisional"
    NO_ANSWER = "no answer"


@dataclass(frozen=True, slots=True)
class Rival:
    """Another setting beside the fastest: its time over the fastest's, less 1, as an interval.

    `more` is how many repeats would probably tell, and `seconds` how long those of all settings
    that are still open take; None where that is not known.
    """

    cell: Cell
    low: float
    high: float
    more: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What can be said about one target; `advised` is None where there is no advice.

    `fastest` is the fastest that may be shown: where there is no advice it is what was seen.
    """

    state: State
    reason: str
    remedy: Remedy
    measure: str
    advised: Cell | None = None
    fastest: Cell | None = None
    baseline: Cell | None = None
    as_fast: tuple[Cell, ...] = ()
    slower: tuple[Rival, ...] = ()
    unknown: tuple[Rival, ...] = ()


def verdicts(run: Run, result: TargetResult, findings: Sequence[Fired]) -> list[Answer]:
    """Judge one target whose settings saved the same and promise the same.

    `result` has its blocked phases marked. One answer by total time; where no setting has every
    phase, as in files of another tool, one for each phase.
    """
    names = set(result.phases)
    whole = any(names <= set(cell.phases) | set(cell.blocked) for cell in result.cells)
    measures = [TOTAL] if whole or not names else result.phases
    return [_verdict(run, result, findings, measure) for measure in measures]


def _verdict(run: Run, result: TargetResult, findings: Sequence[Fired], measure: str) -> Answer:
    entrants = [cell for cell in result.cells if competes(cell, measure, result.phases)]
    if block := _blocked(result, findings, measure):
        return Answer(State.NO_ANSWER, block.reason, block.remedy, measure)
    if not entrants:
        return Answer(State.NO_ANSWER, _nothing(result), Remedy.FINISH, measure)
    spreads = result.compared(entrants, measure)
    first = min(range(len(entrants)), key=lambda i: spreads[i].median)
    fastest = entrants[first]
    if spreads[first].n < N_FOR_INTERVAL:
        repeats = "1 repeat" if fastest.n == 1 else f"{fastest.n} repeats"
        reason = f"{repeats} of {fastest.setting}, and {N_FOR_INTERVAL} are needed for an interval"
        return Answer(State.NO_ANSWER, reason, Remedy.REPEATS, measure, fastest=fastest)
    compared = _compared(result, entrants, spreads)
    advised = compared.advised
    if short := _short(advised, measure):
        return Answer(State.NO_ANSWER, short, Remedy.LONGER, measure, fastest=fastest)
    others = [cell.setting for cell in result.cells if cell is not advised]
    why = (
        _rest(run)
        or doubt(findings, advised.setting, others, advised.codec)
        or _undecided(compared, spreads[entrants.index(advised)])
        or _imported(run)
    )
    return Answer(
        State.PROVISIONAL if why else State.TRUSTED,
        why.reason if why else "",
        why.remedy if why else Remedy.REPEATS if compared.unknown else Remedy.NOTHING,
        measure,
        advised,
        fastest,
        baseline(run, entrants),
        compared.as_fast,
        compared.slower,
        compared.unknown,
    )


def _blocked(result: TargetResult, findings: Sequence[Fired], measure: str) -> Doubt | None:
    """Return which setting that was faster than all others is blocked, and why; None for none."""
    whole = [each for each in findings if each.verdict == "BLOCK" and not each.blocks]
    if whole:
        return _block(whole[0].id, f"{whole[0].id} blocks the run")
    may = [cell for cell in result.cells if competes(cell, measure, result.phases)]
    first = min((cell.places.get(measure, 0) for cell in may), default=math.inf)
    forbade = [cell for cell in result.cells if _forbid(cell, measure)]
    ahead = [c for c in forbade if not may or c.places.get(measure, math.inf) < first]
    if not ahead:
        return None
    best = min(ahead, key=lambda cell: cell.places.get(measure, math.inf))
    check = _forbid(best, measure)[0]
    return _block(check, f"{best.setting} was the fastest seen, and {check} blocks it")


def _forbid(cell: Cell, measure: str) -> list[str]:
    """The checks that keep a setting from being ranked."""
    return [check for phase, check in cell.blocked.items() if measure in (TOTAL, phase)]


def _block(check: str, what: str) -> Doubt:
    """Return what a check forbids, with its reason, and what may make the number valid."""
    return Doubt(f"{what}: {registered(check).blocked}", OF_BLOCK.get(check, Remedy.CHECK))


def _nothing(result: TargetResult) -> str:
    """Why there is no number at all."""
    if any(cell.n for cell in result.cells):
        return "no setting finished all of its phases"
    failed = sum(cell.failed for cell in result.cells)
    if result.cells and not failed:
        return "the files hold rates and no times"
    return f"no trial finished: {failed} failed" if failed else "no trial finished"


@dataclass(frozen=True, slots=True)
class _Compared:
    advised: Cell
    as_fast: tuple[Cell, ...]
    slower: tuple[Rival, ...]
    unknown: tuple[Rival, ...]
    open: tuple[Rival, ...]  # as fast or unknown, and perhaps faster


def _compared(
    result: TargetResult, entrants: Sequence[Cell], spreads: Sequence[Spread]
) -> _Compared:
    """Hold every setting against the fastest, and choose the cheapest of those beside it."""
    found = against_best([each.by_repeat for each in spreads], MARGIN)
    best = entrants[found.best]
    near = NEAR * spreads[found.best].median
    beside = [
        (cell, each, spread.median)
        for cell, each, spread in zip(entrants, found.others, spreads, strict=True)
        if each is not None
    ]
    alike = [cell for cell, each, _ in beside if each.status == "as fast"]
    cheap = [cell for cell, each, middle in beside if each.status == "as fast" and middle <= near]
    advised = min([best, *cheap], key=_cpu)
    unknown = [(cell, each) for cell, each, _ in beside if each.status == "unknown"]
    block = _block_seconds(result, [advised, *(cell for cell, _ in unknown)])
    return _Compared(
        advised,
        tuple(cell for cell in [best, *alike] if cell is not advised),
        tuple(_rival(c, each) for c, each, _ in beside if each.status == "slower"),
        tuple(_rival(cell, each, block) for cell, each in unknown),
        tuple(_rival(cell, each) for cell, each, _ in beside if each.status != "slower"),
    )


def _rival(cell: Cell, against: Against, block: float | None = None) -> Rival:
    seconds = against.more * block if against.more is not None and block is not None else None
    return Rival(cell, against.low, against.high, against.more, seconds)


def _cpu(cell: Cell) -> float:
    return cell.cpu_s_per_operation if cell.counted else cell.cpu_s_per_gib


def _block_seconds(result: TargetResult, cells: Sequence[Cell]) -> float:
    """Seconds of one block: each of these settings once, and the ceilings beside them."""
    own = sum(cell.total.median for cell in cells if cell.total)
    return own + sum(
        result.ceilings[name].seconds.median
        for name in ("write", "read_checked")
        if name in result.ceilings
    )


def _short(cell: Cell, measure: str) -> str:
    """Which phase of the setting is too short to be a measurement; empty for none."""
    phases = [cell.phases[measure]] if measure != TOTAL else list(cell.phases.values())
    short = [phase for phase in phases if phase.seconds.median < SHORTEST_S]
    if not short:
        return ""
    phase = min(short, key=lambda each: each.seconds.median)
    lasted = f"{phase.seconds.median:.2g} s"
    return f"the {phase.name} of {cell.setting} lasted {lasted}, and {SHORTEST_S:g} s are needed"


def _rest(run: Run) -> Doubt | None:
    if run.race is None or run.race.rest.quiet is not False:
        return None
    by = run.race.rest.disturbed_by
    return Doubt(f"the machine was not at rest{f': {by}' if by else ''}", Remedy.IDLE)


def _undecided(compared: _Compared, own: Spread) -> Doubt | None:
    """Whether another setting may be faster by more than the margin, or the number is too wide."""
    # A time that is 1 / 1.1 of the advised one's is faster by the margin.
    faster = 1 / (1 + MARGIN) - 1
    ahead = [rival for rival in compared.open if rival.low < faster]
    if ahead:
        rival = min(ahead, key=lambda each: each.low)
        return Doubt(
            f"{own.n} repeats leave open whether {rival.cell.setting} is faster", Remedy.REPEATS
        )
    width = own.half_width
    if width is not None and width > MARGIN:
        return Doubt(f"the time is known to ±{width * 100:.0f} % only", Remedy.REPEATS)
    return None


def _imported(run: Run) -> Doubt | None:
    if run.origin != "imported":
        return None
    return Doubt("files of another tool do not show what else went on", Remedy.CHECK)


def baseline(run: Run, cells: Sequence[Cell]) -> Cell | None:
    """Return the setting that speeds are told as multiples of: the race's, else none × 1."""
    wanted = (run.study.race and run.study.race.baseline) or BASELINE
    return next(
        (
            cell
            for cell in cells
            if all(cell.level(name) == level for name, level in wanted.items())
        ),
        None,
    )
