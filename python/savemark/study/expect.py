"""What a study expects: `last_done.write.bandwidth >= 80 GiB/s where part=shared file with 99 %`.

    [any] METRIC >=|<=|>|< NUMBER UNIT [where NAME=LEVEL[|LEVEL][, …]] [with NUMBER %]

METRIC is `[first_done.|last_done.]PHASE.NAME`. Every setting that `where` leaves has to meet it;
after `any`, one of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from savemark.errors import did_you_mean, nearest, usage
from savemark.study import metrics
from savemark.study.metrics import PHASES, Metric
from savemark.study.model import Study

CONFIDENCE = 0.95
EXAMPLE = "write.bandwidth >= 80 GiB/s where workers=16 with 99 %"
GRAMMAR = re.compile(
    r"(?P<any>any\s+)?(?P<metric>[\w.-]+)\s*(?P<sign>>=|<=|>|<)\s*"
    r"(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*(?P<unit>[^\s\d]\S*)?"
    r"(?:\s+where\s+(?P<where>.+?))?(?:\s+with\s+(?P<percent>\d+(?:\.\d*)?)\s*%)?"
)
# Levels may hold commas (`gpus=0,1`): a comma parts two names, not two levels.
BETWEEN = re.compile(r",\s*(?=\w+\s*=)")
KEYS = ("that", "where", "confidence")


@dataclass(frozen=True, slots=True)
class Expectation:
    """One line, read; `bound` is in base units, `scale` what one of its unit is."""

    text: str
    phase: str
    metric: Metric
    sign: str
    bound: float
    unit: str
    scale: float
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    confidence: float = CONFIDENCE
    any: bool = False  # one setting is enough

    def holds(self, value: float) -> bool:
        """Whether a value is on the right side of the bound."""
        if self.sign[0] == ">":
            return value > self.bound or (value == self.bound and self.sign == ">=")
        return value < self.bound or (value == self.bound and self.sign == "<=")

    def covers(self, levels: Mapping[str, Any]) -> bool:
        """Whether it is about a setting with these levels."""
        return all(
            name in levels and any(_is(name, levels[name], level) for level in wanted)
            for name, wanted in self.where.items()
        )


def parse(text: str, phases: Iterable[str] = PHASES) -> Expectation:
    """Read one line; a usage error says what is wrong with it, and the nearest that is right."""
    line = GRAMMAR.fullmatch(text.strip())
    if line is None:
        raise usage(f"`{text}` is not an expectation", f"for example: {EXAMPLE}")
    known = metrics.names(tuple(dict.fromkeys(phases)))
    name, unit = line["metric"], line["unit"] or ""
    if name not in known:
        raise usage(f"unknown metric `{name}`", _hint(name, list(known)))
    phase, metric = known[name]
    if unit not in metric.units:
        wrong = f"`{unit}` is no unit of {name}" if unit else f"{name} needs a unit"
        near = nearest(unit, list(metric.units)) if unit else None
        hint = f"did you mean `{near}`?" if near else f"one of: {', '.join(metric.units)}"
        raise usage(wrong, hint)
    percent = float(line["percent"] or CONFIDENCE * 100)
    if not 50 <= percent < 100:
        raise usage(f"`with {percent:g} %`: expected 50 to below 100", "with 95 % is the default")
    scale = metric.units[unit]
    return Expectation(
        text=" ".join(text.split()),
        phase=phase,
        metric=metric,
        sign=line["sign"],
        bound=float(line["number"]) * scale,
        unit=unit,
        scale=scale,
        where=_read_where(line["where"]),
        confidence=percent / 100,
        any=line["any"] is not None,
    )


def _hint(name: str, known: list[str]) -> str:
    """Return the nearest name; where none is near, what a name is made of."""
    if near := nearest(name, known):
        return f"did you mean `{near}`?"
    phases = dict.fromkeys(phase for phase, _ in metrics.names(PHASES).values())
    return (
        f"a metric is PHASE.NAME; phases: {', '.join(phases)}; "
        f"names: {', '.join(metrics.METRICS)}; for example: last_done.write.bandwidth"
    )


def _read_where(text: str | None) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for part in BETWEEN.split(text or ""):
        name, equals, levels = part.partition("=")
        if text and (not equals or not name.strip() or not levels.strip()):
            raise usage(
                f"`where {text}` is not NAME=LEVEL, …", "where part=shared file, workers=16"
            )
        if text:
            found[name.strip()] = tuple(level.strip() for level in levels.split("|"))
    return found


def written(item: object) -> str:
    """Return the text of what a study's list holds: a line, or the same as a mapping."""
    if isinstance(item, str):
        return item
    if not isinstance(item, Mapping):
        raise usage("expected text or a mapping", f"- {EXAMPLE}")
    for key in item:
        if key not in KEYS:
            raise usage(f"unknown key `{key}`", did_you_mean(str(key), list(KEYS)))
    where = item.get("where") or {}
    if "that" not in item or not isinstance(where, Mapping):
        hint = "{that: write.bandwidth >= 80 GiB/s, where: {workers: 16}, confidence: 99 %}"
        raise usage("expected `that`, and `where` as a mapping of levels", hint)
    text = str(item["that"])
    if where:
        text += " where " + ", ".join(f"{name}={_levels(levels)}" for name, levels in where.items())
    if "confidence" in item:
        text += f" with {_percent(item['confidence'])} %"
    return text


def _levels(said: object) -> str:
    levels = said if isinstance(said, list) else [said]
    return "|".join("none" if level is None else _plain(level) for level in levels)


def _percent(said: object) -> str:
    """Return `99` of `99 %`, `99%` or 0.99."""
    if isinstance(said, float) and said < 1:
        return f"{said * 100:g}"
    return str(said).removesuffix("%").strip()


def _is(name: str, level: object, said: str) -> bool:
    """Whether a level is what was said: as it is, or as people write it (`2MiB`)."""
    from savemark.records.naming import shown

    forms = {_plain(level), shown(name, level)}
    return said.replace(" ", "").casefold() in {f.replace(" ", "").casefold() for f in forms}


def _plain(level: object) -> str:
    if isinstance(level, bool):
        return str(level).lower()
    return "none" if level is None else str(level)


class Options(Protocol):
    """A study, as it is declared or as `run.json` has it."""

    def own(self, cell: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return the options that all trials of a cell's part have."""


def levels_of(study: Options, factors: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return all that `where` can ask of a setting: options of its part, its levels, its target."""
    return {**study.own(factors), **factors, "target": label}


def check(study: Study, labels: Iterable[str]) -> None:
    """Refuse an expectation that no setting of the study can answer for."""
    settings = [levels_of(study, cell, label) for label in labels for cell in study.cells()]
    for text in study.expect:
        demand(parse(text), settings)


def least_repeats(study: Study) -> int:
    """Return the repeats below which no interval of the study's expectations exists: 2 / 2ⁿ."""
    lines = [parse(text) for text in study.expect]
    return max(
        (1 - math.floor(math.log2(1 - expectation.confidence)) for expectation in lines), default=0
    )


def too_few(study: Study) -> str:
    """Say that the repeats cannot show what is expected; empty where they can."""
    least = least_repeats(study)
    if study.repeats >= least:
        return ""
    repeats = f"{study.repeats} repeat{'s' * (study.repeats > 1)}"
    return f"{repeats} can show nothing of what is expected; --repeats {least} or more can"


def demand(expectation: Expectation, settings: list[dict[str, Any]]) -> None:
    """Refuse an expectation that covers none of these settings, and say what there is."""
    if any(expectation.covers(levels) for levels in settings):
        return
    known = list(dict.fromkeys(name for levels in settings for name in levels))
    for name, wanted in expectation.where.items():
        if name not in known:
            raise usage(
                f"expect: `{expectation.text}`: nothing here is called `{name}`",
                did_you_mean(name, known),
            )
        have = list(dict.fromkeys(_plain(s[name]) for s in settings if name in s))
        for level in wanted:
            if not any(_is(name, s[name], level) for s in settings if name in s):
                hint = f"its levels: {', '.join(have[:20])}"
                raise usage(f"expect: `{expectation.text}`: {name} is never `{level}`", hint)
    raise usage(
        f"expect: `{expectation.text}`: no setting is all of this", "`--dry-run` lists the settings"
    )
