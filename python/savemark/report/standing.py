"""Where a score of IO500 stands among others: those of a folder, such as IO500's submissions."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from savemark.errors import SavemarkError, usage
from savemark.records.io500 import PHASES, Outcome
from savemark.records.io500 import Line as Phase
from savemark.report.document import MISSING, Datum, Line, Table
from savemark.report.text import four
from savemark.tools import io500 as tool
from savemark.tools.source import Source

# The same results stand in both; the first says why something is invalid.
FILES = ("result.txt", "result_summary.txt")
WHAT = {"score": 2, "bandwidth": 0, "rate": 1}
CAVEAT = (
    "IO500 ranks the submissions of one release against each other, and those of ten nodes apart; "
    "this is the order of the scores alone, whatever their year, nodes and media"
)


@dataclass(frozen=True, slots=True)
class Place:
    """A rank by one number: `rank` of `total`, and who is next above and below."""

    rank: int
    total: int
    above: str | None
    below: str | None


@dataclass(frozen=True, slots=True)
class Standing:
    """Ranks by the score, and by the two numbers that it is made of; none without a score."""

    places: Mapping[str, Place]

    @property
    def sentence(self) -> str:
        """The ranks in words."""
        score = self.places.get("score")
        if score is None:
            return "it has no score, so it has no rank"
        names = (score.above, score.below)
        if all(names):
            between = f"between {names[0]} and {names[1]}"
        else:
            between = f"below {names[0]}" if names[0] else f"above {names[1]}"
        others = " and ".join(
            f"{self.places[what].rank} by {what}" for what in WHAT if what != "score"
        )
        return f"rank {score.rank} of {score.total} by score, {between}; {others}"

    def as_json(self) -> dict[str, Any]:
        """Return the form under `--json`."""
        return {what: asdict(place) for what, place in self.places.items()}


@dataclass(frozen=True, slots=True)
class Field:
    """All that a folder has, by name: bandwidth, rate and score."""

    scores: Mapping[str, tuple[float, float, float]]
    left_out: int  # without a score, or [INVALID]
    folder: Path

    def place(self, outcome: Outcome) -> Standing:
        """Return where an outcome stands; it is counted with the others."""
        score = outcome.score
        if score is None:
            return Standing({})
        return Standing({what: self._by(at, score) for what, at in WHAT.items()})

    def _by(self, at: int, own: tuple[float, float, float]) -> Place:
        """Return the place by one of the numbers; a result does not compete with itself."""
        value = own[at]
        others = {name: score for name, score in self.scores.items() if score != own}
        order = sorted(others, key=lambda name: -self.scores[name][at])
        before = bisect_right([-self.scores[name][at] for name in order], -value)
        above = self._named(order[before - 1], at) if before else None
        below = self._named(order[before], at) if before < len(order) else None
        return Place(before + 1, len(order) + 1, above, below)

    def _named(self, name: str, at: int) -> str:
        return f"{name} ({four(self.scores[name][at])})"

    @property
    def sentence(self) -> str:
        """What was compared with, and what that means."""
        out = f", {self.left_out} without a valid score left out" if self.left_out else ""
        return f"{self.folder}: {len(self.scores)} results{out}. {CAVEAT}."


def field(folder: Path) -> Field:
    """Read all results below a folder, one for each folder that has any; same ones count once."""
    if not folder.is_dir():
        raise usage(f"{folder}: no such folder", "--among FOLDER, with result_summary.txt in it")
    scores: dict[str, tuple[float, float, float]] = {}
    left_out = 0
    for path in _files(folder):
        try:
            outcome = _of_file(path)
        except SavemarkError:
            left_out += 1
            continue
        if outcome.score is None or not outcome.valid:
            left_out += 1
        elif outcome.score not in scores.values():
            name = path.parent.relative_to(folder).as_posix()
            scores[path.name if name == "." else name] = outcome.score
    if not scores:
        raise usage(
            f"{folder}: no valid score in {left_out} results"
            if left_out
            else f"{folder}: no result_summary.txt or result.txt below it",
            "IO500's submissions are at https://github.com/IO500/submission-data",
        )
    return Field(scores, left_out, folder)


def _files(folder: Path) -> list[Path]:
    found = []
    for here, folders, names in os.walk(folder):
        folders.sort()
        name = next((name for name in FILES if name in names), None)
        found += [Path(here) / name] if name else []
    return found


def of(path: Path, *, show_blocked: bool = False) -> dict[str, Outcome]:
    """Return what a run folder or a result file holds, by name; lines that a check forbids, not."""
    if not path.is_dir():
        return {path.name if path.parent == Path() else str(path): _of_file(path)}
    if not (path / "run.json").exists():
        name = next((name for name in FILES if (path / name).exists()), None)
        if name is None:
            raise usage(
                f"{path} is no run folder, and has no {' or '.join(FILES)}",
                "to make a run: savemark run io500 PATH",
            )
        return {str(path): _of_file(path / name)}
    from savemark.report.analysis import analyse
    from savemark.report.io500 import scored

    analysis = analyse(path, show_blocked=show_blocked)
    found = scored(analysis)
    if not found:
        raise usage(f"{path}: no finished trial of IO500 in it", "savemark run io500 PATH")
    return {each.name: each.shown(analysis) for each in found}


def _of_file(path: Path) -> Outcome:
    source = Source.of(path)
    if not tool.recognises(source):
        raise usage(f"{path}: no result of IO500", f"give it {' or '.join(FILES)}")
    found = tool.read(source)
    lines = {
        name: Phase(
            found.rates[name],
            found.seconds[name],
            (found.invalid[name],) if name in found.invalid else (),
        )
        for name in PHASES
        if name in found.rates
    }
    rest = tuple(f"{where}: {why}" for where, why in found.invalid.items() if where not in PHASES)
    return Outcome(found.version or "?", found.ranks or 0, lines, rest)


def table(found: Mapping[str, Outcome], places: Mapping[str, Standing]) -> Table:
    """The lines of several results beside each other."""
    from savemark.report.io500 import TOTALS

    def rate(outcome: Outcome, name: str) -> Datum:
        line = outcome.lines.get(name)
        unit = "GiB/s" if name.startswith("ior") else "kIOPS"
        mark = " [INVALID]" if line and line.reasons else ""
        return Datum(f"{four(line.rate)} {unit}{mark}", line.rate) if line else MISSING

    def total(name: str, what: str) -> Datum:
        score = found[name].score
        if score is None:
            return MISSING
        mark = "[INVALID]" if what == "score" and not found[name].valid else ""
        value = score[WHAT[what]]
        return Datum(" ".join(filter(None, (four(value), TOTALS[what], mark))), value)

    lines = [Line([Datum(n), *(rate(each, n) for each in found.values())]) for n in PHASES]
    lines += [Line([Datum(what), *(total(name, what) for name in found)]) for what in TOTALS]
    ranks = [place.places.get("score") for place in places.values()]
    if ranks:
        words = [f"{p.rank} of {p.total}" if p else "–" for p in ranks]
        lines.append(Line([Datum("rank by score"), *(Datum(word, 0.0) for word in words)]))
    return Table("io500", "IO500", ["phase", *found], lines)
