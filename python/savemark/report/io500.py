"""IO500: its twelve lines and its score, as a table, as sentences, as data and as its own files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from savemark import files
from savemark.records import io500
from savemark.records.fields import Options
from savemark.records.io500 import PHASES, Outcome
from savemark.records.io500 import Line as Phase
from savemark.records.phase import Phase as PhaseRecord
from savemark.records.record import Record
from savemark.records.run import Entry
from savemark.report.analysis import Analysis
from savemark.report.document import BLANK, MISSING, Datum, Line, Table, quantity
from savemark.report.text import four, two
from savemark.tools import ENGINE
from savemark.tools.io500 import settings

WORKLOAD = "io500"
GIB = 2**30
# Runs beside each other in the table; of more, the files below io500/ have all.
MOST = 6
HOW = (
    "GiB/s = 2³⁰ bytes per second; kIOPS = 1000 operations per second. Bandwidth is the geometric "
    "mean of the four lines of IOR, rate that of the eight others, and the score is √(bandwidth · "
    "rate). A time holds opening, writing, the flush and closing."
)
OWN = "savemark's own engine, which follows IO500's rules and is not IO500's program"


@dataclass(frozen=True, slots=True)
class Scored:
    """One finished trial of IO500."""

    name: str  # what tells it from the others
    group: str  # the same for all repeats
    label: str
    tool: str
    entry: Entry
    record: Record
    outcome: Outcome
    blocked: dict[str, str]  # phase → the check that forbids to show it

    def shows(self, analysis: Analysis, phase: str) -> bool:
        """Whether this line may be shown."""
        return analysis.show_blocked or phase not in self.blocked

    def shown(self, analysis: Analysis) -> Outcome:
        """What of it may be shown; without some of its lines it has no score."""
        lines = {name: e for name, e in self.outcome.lines.items() if self.shows(analysis, name)}
        return replace(self.outcome, lines=lines)

    def score(self, analysis: Analysis) -> tuple[float, float, float] | None:
        """The score, where all that it is made of may be shown."""
        return self.shown(analysis).score

    @property
    def reasons(self) -> list[str]:
        """Why it is invalid."""
        return self.outcome.why_invalid


def scored(analysis: Analysis) -> list[Scored]:
    """All finished trials of the workload, in the order in which they ran."""
    if WORKLOAD not in analysis.frame["workload"].unique():
        return []
    blocked = {
        (cell.label, cell.setting): cell.blocked
        for result in analysis.results
        for cell in result.cells
    }
    rows = analysis.frame.filter(analysis.frame["workload"] == WORKLOAD)
    named = {row["index"]: row["setting"] for row in rows.select("index", "setting").to_dicts()}
    repeats = len(set(rows["repeat"].drop_nulls())) > 1
    found = []
    for entry in analysis.run.entries:
        record = entry.record
        if entry.index not in named or not entry.ok or record is None or entry.role != "trial":
            continue
        setting = named[entry.index]
        words = [entry.label] if len(analysis.results) > 1 else []
        words += [setting.removeprefix("tool ")] if entry.factors else []
        group = ", ".join(words) or entry.label
        words += [f"repeat {(entry.repeat or 0) + 1}"] if repeats else []
        forbids = blocked.get((entry.label, setting), {})
        tool = record.tool.name if record.tool else ENGINE
        outcome = _outcome(record, forbids, analysis.run.version)
        name = ", ".join(words) or entry.label
        found.append(Scored(name, group, entry.label, tool, entry, record, outcome, forbids))
    return found


def _outcome(record: Record, blocked: dict[str, str], version: str) -> Outcome:
    trial, tool = record.trial, record.tool
    phases = {phase.name: phase for phase in record.phases if phase.name in PHASES}
    lines = {name: _line(phases[name], trial, blocked.get(name)) for name in PHASES}
    own = f"savemark-{version}"
    return Outcome(str(tool.version) if tool else own, _ranks(phases), lines)


def _ranks(phases: dict[str, PhaseRecord]) -> int:
    return _workers(phases[next(iter(PHASES))])


def _workers(phase: PhaseRecord) -> int:
    """How many took part; of several ranks there is only the sum."""
    return len(phase.workers) or phase.worker_count or 1


def _line(phase: PhaseRecord, trial: Options, blocked: str | None) -> Phase:
    name, seconds = phase.name, (phase.elapsed_ns or 0) / 1e9
    moved, done = phase.user_bytes or 0, phase.operations or 0
    amount = moved / GIB if name.startswith("ior") else done / 1e3
    reasons = io500.against(phase, trial)
    if blocked:
        reasons.append(f"savemark's check {blocked} forbids this number")
    more = {"exe": f"savemark, workload io500, phase {name}"}
    if phase.found is not None:
        more |= {"nproc": str(_workers(phase))}
        more |= {"found": str(phase.found), "total-files": str(done)}
    return Phase(amount / seconds if seconds else 0.0, seconds, tuple(reasons), more)


def tables(analysis: Analysis) -> list[Table]:
    """The twelve lines of every run beside each other; nothing for another workload."""
    found = scored(analysis)
    if not found:
        return []
    shown = found[:MOST]
    ratios = _ratios(analysis, found)
    heads, groups = ["phase"], [("", 1)]
    for each in shown:
        heads += ["", "seconds"]
        groups.append((each.name, 2))
    if ratios:
        heads.append("ratio")
        groups.append(("io500 / savemark", 1))
    lines = [
        Line([Datum(name), *_cells(analysis, shown, name), *_ratio(ratios, name)])
        for name in PHASES
    ]
    lines += [_total(analysis, shown, place, ratios) for place in TOTALS]
    return [Table("io500", "IO500", heads, lines, _note(found), groups)]


TOTALS = {"bandwidth": "GiB/s", "rate": "kIOPS", "score": ""}


def _cells(analysis: Analysis, shown: list[Scored], name: str) -> Iterator[Datum]:
    unit = "GiB/s" if name.startswith("ior") else "kIOPS"
    for each in shown:
        if not each.shows(analysis, name):
            yield from (Datum(f"blocked by {each.blocked[name]}", tone="why", missing=True), BLANK)
            continue
        line = each.outcome.lines[name]
        why = "; ".join(line.reasons)
        mark = " [INVALID]" if line.reasons else ""
        yield Datum(f"{four(line.rate)} {unit}{mark}", line.rate, why)
        yield Datum(f"{line.seconds:.1f}", line.seconds)


def _total(analysis: Analysis, shown: list[Scored], what: str, ratios: dict[str, float]) -> Line:
    data = [Datum(what)]
    for each in shown:
        score = each.score(analysis)
        if score is None:
            data += [MISSING, BLANK]
            continue
        value = score[list(TOTALS).index(what)]
        words = [four(value), TOTALS[what]]
        words += ["[INVALID]"] if what == "score" and not each.outcome.valid else []
        data += [Datum(" ".join(filter(None, words)), value), BLANK]
    return Line([*data, *_ratio(ratios, what)], tone="best" if what == "score" else "")


def _ratios(analysis: Analysis, found: list[Scored]) -> dict[str, float]:
    """IO500's own program against this one: medians of the repeats, where both may be shown."""
    both = [[each for each in found if each.tool == tool] for tool in (ENGINE, WORKLOAD)]
    if not all(both) or len({each.label for each in found}) > 1:
        return {}
    ratios = {}
    for name in PHASES:
        if all(each.shows(analysis, name) for each in found):
            ours, theirs = (median(e.outcome.lines[name].rate for e in side) for side in both)
            ratios[name] = theirs / ours
    scores = [[each.score(analysis) for each in side] for side in both]
    for place, what in enumerate(TOTALS):
        known = [[score[place] for score in side if score] for side in scores]
        if all(known):
            ratios[what] = median(known[1]) / median(known[0])
    return ratios


def _ratio(ratios: dict[str, float], name: str) -> list[Datum]:
    if not ratios:
        return []
    value = ratios.get(name)
    return [quantity(value, two)]


def _note(found: list[Scored]) -> str:
    said = [f"{each.name}: [INVALID]: {'; '.join(each.reasons)}." for each in found if each.reasons]
    if any(each.tool == ENGINE for each in found):
        said.append(f"Measured by {OWN}; in IO500's own lists only that program's results count.")
    return " ".join([HOW, *said])


def sentences(analysis: Analysis) -> list[str]:
    """The score of every run in a sentence each."""
    said = []
    for each in scored(analysis):
        score = each.score(analysis)
        head = f"IO500 on {each.name}"
        if score is None:
            checks = ", ".join(sorted(set(each.blocked.values())))
            said.append(f"{head}: no score, for {checks} forbids some of its lines.")
            continue
        bandwidth, rate, total = (four(value) for value in score)
        more = len(each.reasons) - 1
        why = f" [INVALID: {each.reasons[0]}" if each.reasons else ""
        why += (f" and {more} more]" if more else "]") if why else ""
        said.append(f"{head}: score {total}{why}, of {bandwidth} GiB/s and {rate} kIOPS.")
    return said


def as_json(analysis: Analysis) -> list[dict[str, Any]]:
    """Each run as data, in IO500's units."""
    found = []
    for each in scored(analysis):
        about = {"name": each.name, "target": each.label, "tool": each.tool}
        found.append(about | data(each.shown(analysis)))
    return found


def data(outcome: Outcome) -> dict[str, Any]:
    """One run as data, in IO500's units."""
    score = outcome.score
    lines = {n: {"rate": e.rate, "seconds": e.seconds} for n, e in outcome.lines.items()}
    return {
        "phases": lines,
        "bandwidth_gib_per_s": score and score[0],
        "rate_kiops": score and score[1],
        "score": score and score[2],
        "valid": outcome.valid,
        "reasons": outcome.why_invalid,
    }


def write(analysis: Analysis) -> list[Path]:
    """Write IO500's own files for each run of this engine; those of its program are in tools/."""
    made = []
    folder = analysis.run.folder / "io500"
    for each in scored(analysis):
        if each.tool != ENGINE:
            continue
        trial = each.record.trial
        place = folder / f"{each.entry.index:05}"
        found = settings(trial, str(trial["target"]))
        files.folder(folder)
        io500.write(place, each.outcome, found, [f"measured by {OWN}", each.name])
        made.append(place)
    return made
