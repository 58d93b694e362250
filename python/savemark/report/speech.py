"""An answer in words and numbers, once for the terminal, the page and the Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from savemark.advice.next_step import Step
from savemark.advice.threshold import changes
from savemark.advice.verdict import Answer, Rival, State
from savemark.records import Run
from savemark.records.naming import GIVEN, ONLY, variant
from savemark.report.analysis import Analysis
from savemark.report.answers import LabelledAnswer, answers
from savemark.report.document import Number, Spoken
from savemark.report.text import about, binary, both, gbs, medium, number, percent, seconds, where
from savemark.stats import Cell, PhaseStat
from savemark.stats.equivalence import MARGIN

VERBS = {"save": "saves", "restore": "restores", "write": "writes", "read": "reads"}
# What a limit is of, behind "95 % of what this disk".
TAKES = {"save": "takes", "write": "takes", "restore": "gives", "read": "gives"}
# Fewer stored bytes than this share less are no reason to choose a slower setting.
FEWER = 0.05
LISTED = 3
PAYLOADS = {"bf16": "generated bf16 weights", "random": "random bytes", "zeros": "zeros"}


def spoken(analysis: Analysis) -> list[Spoken]:
    """Every answer of a run."""
    return [_spoken(analysis.run, each) for each in answers(analysis)]


def _spoken(run: Run, labelled: LabelledAnswer) -> Spoken:
    answer, of = labelled.answer, medium(run, labelled.result.label)
    cell = answer.advised or answer.fastest
    base = answer.baseline if answer.baseline is not answer.advised else None
    numbers = [_number(phase, base, of) for phase in cell.phases.values()] if cell else []
    lines = [("why", f"{answer.reason}.")] if answer.state is State.PROVISIONAL else []
    return Spoken(
        labelled.about,
        answer.state,
        _title(answer, of),
        _sentence(answer, of, base),
        tuple(numbers),
        (*lines, *_beside(answer), *_codec(run, labelled)),
    )


def how(cell: Cell, of: str = "the disk") -> str:
    """A setting in words: `no compression, 4 parallel files`."""
    named = {name for name in ("codec", "streams") if name in cell.factors}
    words = []
    if "codec" in named:
        plain = {"none": "no compression", "tar": "tar"}
        words.append(plain.get(cell.codec, f"compression with {cell.codec}"))
    if "streams" in named:
        words.append(_files(cell.streams, of))
    # What is saved is what the answer is about.
    words.append(variant({k: v for k, v in cell.factors.items() if k not in GIVEN}))
    return ", ".join(word for word in words if word) or cell.setting


def _files(streams: int, of: str) -> str:
    noun = "object" if of == "the bucket" else "file"
    if streams == 0:
        return "one sequential archive"
    return f"one {noun}" if streams == 1 else f"{streams} parallel {noun}s"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _title(answer: Answer, of: str) -> str:
    if answer.advised is not None:
        return f"{_capital(how(answer.advised, of))}."
    return f"No advice: {answer.reason}."


def _sentence(answer: Answer, of: str, base: Cell | None) -> str:
    """The answer in one sentence, with the ratio to the baseline behind it."""
    cell = answer.advised or answer.fastest
    if cell is None:
        return f"No advice: {answer.reason}."
    speeds = "; ".join(_speed(phase, of) for phase in cell.phases.values())
    named = "the only setting" if cell.setting == ONLY else how(cell, of)
    if answer.advised is None:
        return f"No advice: {answer.reason}. Fastest seen: {named}: {speeds}."
    text = f"{_capital(named)}: {speeds}."
    times = [_times(phase, base) for phase in cell.phases.values()]
    if base is not None and all(times):
        text += f" {_capital(both(times))} {_one(base, of)}."
    return text


def _speed(phase: PhaseStat, of: str) -> str:
    """`saves 1.61 GB/s [1.55 1.66], 95 % of what this disk takes`."""
    verb = VERBS.get(phase.name, f"{phase.name}:")
    if not phase.speed:
        return f"{verb} {seconds(phase.seconds.median)} s"
    text = f"{verb} {number(phase, phase.speed)} {phase.unit}"
    if phase.speeds:
        text += f" {_brackets(phase)}"
    share = phase.of_limit
    if share is None or phase.limit is None:
        return text
    name = where(phase.limit, of)
    if name == of and name.startswith("the "):
        name = f"what this {of.removeprefix('the ')} {TAKES.get(phase.name, 'can do')}"
    return f"{text}, {_share(share)} {name}"


def _share(share: float) -> str:
    """A share of a limit; at the limit is all of it, for a limit is not known to a percent."""
    return "all of" if share >= 1 else f"{percent(share)} of"


def _brackets(phase: PhaseStat) -> str:
    return f"[{number(phase, phase.slowest)} {number(phase, phase.fastest)}]"


def _number(phase: PhaseStat, base: Cell | None, of: str) -> Number:
    share, limit = phase.of_limit, phase.limit
    times = _times(phase, base)
    speed = bool(phase.speed)
    return Number(
        phase=phase.name,
        value=number(phase, phase.speed) if speed else seconds(phase.seconds.median),
        unit=phase.unit if speed else "s",
        interval=_brackets(phase) if phase.speeds and speed else "",
        kind=phase.seconds.kind,
        limit=f"{_share(share)} {where(limit, of)}" if share is not None and limit else "",
        times=f"{times} {_one(base, of)}" if times and base else "",
    )


def _times(phase: PhaseStat, base: Cell | None) -> str:
    """How many times as fast as the baseline: `2.1 ×`; empty where that is not known."""
    other = base.phases.get(phase.name) if base else None
    if other is None or not other.speed or not phase.speed:
        return ""
    return f"{phase.speed / other.speed:.1f} ×"


def _one(base: Cell, of: str) -> str:
    """The baseline in few words."""
    return _files(1, of) if (base.codec, base.streams) == ("none", 1) else base.setting


def _beside(answer: Answer) -> list[tuple[str, str]]:
    """The settings that are as fast, slower, or not told apart yet."""
    lines = []
    if answer.as_fast:
        names = both([cell.setting for cell in answer.as_fast])
        lines.append(("as fast", f"{names} (within {MARGIN * 100:.0f} %)"))
    # How far the baseline is behind stands beside the speeds.
    rivals = [rival for rival in answer.slower if rival.cell is not answer.baseline]
    if rivals and answer.advised:
        slower = sorted(rivals, key=lambda rival: rival.low)
        words = [_slower(rival, answer.advised) for rival in slower[:LISTED]]
        more = len(slower) - LISTED
        lines.append(("slower", "; ".join(words) + (f"; and {more} more" if more > 0 else "")))
    if answer.unknown:
        lines.append(("unknown", _unknown(answer.unknown)))
    return lines


def _slower(rival: Rival, advised: Cell) -> str:
    low, high = rival.low, rival.high
    if low >= 1:
        ends = f"{1 + low:.1f}", f"{1 + high:.1f}"
        text = f"{rival.cell.setting} takes {' to '.join(dict.fromkeys(ends))} × the time"
    else:
        ends = f"{low * 100:.0f}", f"{high * 100:.0f}"
        text = f"{rival.cell.setting} by {' to '.join(dict.fromkeys(ends))} %"
    fewer = 1 - advised.ratio / rival.cell.ratio if rival.cell.sized and advised.sized else 0.0
    return text + (f", with {fewer * 100:.0f} % fewer bytes" if fewer >= FEWER else "")


def _unknown(rivals: Sequence[Rival]) -> str:
    names = both([rival.cell.setting for rival in rivals], 4)
    known = [rival for rival in rivals if rival.more is not None]
    if not known:
        return names
    most = max(rival.more or 0 for rival in known)
    time = max((rival.seconds or 0.0 for rival in known), default=0.0)
    repeats = "1 more repeat" if most == 1 else f"{most} more repeats"
    return f"{names}: {repeats}" + (f", about {about(time)}" if time else "")


def _codec(run: Run, labelled: LabelledAnswer) -> list[tuple[str, str]]:
    """When a codec pays, where that may change what somebody does."""
    pays, advised = labelled.pays, labelled.answer.advised
    if pays is None or advised is None or not changes(pays, advised):
        return []
    name = f"{pays.codec} × {pays.streams}"
    text = f"A codec pays below {gbs(pays.rate)} GB/s of storage ({name}, {_data(run)})."
    return [("codec", text)]


def _data(run: Run) -> str:
    """What was saved, for what a codec makes of other data is another matter."""
    if run.option("state"):
        return "on your state"
    payload = str(run.option("payload") or "bf16")
    return f"on {PAYLOADS.get(payload, payload)}; --state DIR measures yours"


def cost(step: Step) -> str:
    """What a command takes: `about 40 s, writes 24 GiB`; empty where it measures nothing."""
    if step.seconds is None:
        return ""
    written = f", writes {binary(step.written_bytes)}" if step.written_bytes else ""
    return f"about {about(step.seconds)}{written}"
