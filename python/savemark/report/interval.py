"""The interval section: what the measured save and restore mean for a job that fails."""

from __future__ import annotations

from savemark.advice import interval
from savemark.checks.repeats import leader
from savemark.report.analysis import Analysis
from savemark.report.document import Datum, Line, Place, Table
from savemark.report.text import duration

# Where a reader starts from; the page has a field for each of the first two.
STATE_BYTES = 100e9
MTBF_S = 12 * 3600.0
RESTART_S = 300.0  # detect the failure and start again, without reading the checkpoint
COLOURS = ("codec-tar", "codec-zstd", "codec-lz4", "codec-gzip", "codec-zlib", "codec-planes")


def places(analysis: Analysis) -> list[Place]:
    """The targets whose best setting has a save and a restore that may be shown."""
    found: list[Place] = []
    for result in analysis.results:
        ranking = leader(result)
        best = ranking.best if ranking else None
        if best is None or best.blocked or not {"save", "restore"} <= set(best.phases):
            continue
        rates = [best.phases[name].user_rate for name in ("save", "restore")]
        if all(rates):
            colour = f"var(--{COLOURS[len(found) % len(COLOURS)]})"
            found.append(Place(result.label, best.setting, rates[0], rates[1], colour))
    return found


def _numbers(place: Place, state: float, mtbf: float) -> tuple[float, float, float, float]:
    """Seconds of save and restore, the interval with most useful work, and its share."""
    save, restore = state / place.save, state / place.restore
    tau = interval.optimal(save, mtbf)
    return save, restore, tau, interval.goodput(tau, save, mtbf, RESTART_S + restore)


def table(found: list[Place]) -> Table:
    """The numbers for the job that the fields start with."""
    heads = ["", "a save takes", "a restore takes", "save every", "useful work"]
    lines = []
    for place in found:
        save, restore, tau, share = _numbers(place, STATE_BYTES, MTBF_S)
        texts = [duration(save), duration(restore), duration(tau), f"{share * 100:.1f} %"]
        name = f"{place.label}, {place.setting}" if len(found) > 1 else place.setting
        lines.append(Line([Datum(name), *map(Datum, texts)]))
    return Table("interval", "Interval", heads, lines, NOTE)


NOTE = (
    "The interval with the most useful work, for failures that strike at any time alike, also "
    f"while saving and restarting (Daly 2006). A restart is {RESTART_S / 60:.0f} minutes and a "
    "restore; the work stands still while a save runs. For asynchronous saves and what a larger "
    "job needs: savemark advise."
)
