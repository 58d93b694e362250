"""The fsync study, corrected: what each policy costs a solver, and what it buys.

Made of live trials of the workload `iterate`, which say what of their saves is durable by when.
Rates are of whole repeats; a save's time is all that the solver did not compute.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from savemark.advice import interval
from savemark.checks.flush import PROMISES
from savemark.report.analysis import Analysis
from savemark.report.document import MISSING, Datum, Line, Table
from savemark.report.factors import amount
from savemark.report.interval import MTBF_S, RESTART_S, STATE_BYTES
from savemark.report.text import duration, gbs
from savemark.stats import median
from savemark.stats.effect import Effect, ratio_of_medians
from savemark.studies.durability.legacy import THREADS, VERSIONS, factor

NEEDS = ("iterations", "durable_bytes", "durable_ns", "stage_compute_ns", "user_bytes")
PARTS = ("compute", "write", "sync", "wait", "drain")
# The pair that the original study compares.
PLAIN, BETTER = "fsync_each", "fsync_leader"


@dataclass(frozen=True, slots=True)
class Setting:
    """The repeats of one policy on one number of threads."""

    policy: str
    threads: int
    contract: str
    atomic: bool
    rows: pl.DataFrame

    @property
    def seen(self) -> list[float]:
        """Bytes/s that the application saved, computing included."""
        return self._rates("user_bytes", "elapsed_ns")

    @property
    def durable(self) -> list[float]:
        """Bytes/s of saves that are on stable storage, until the last of them is."""
        return self._rates("durable_bytes", "durable_ns")

    @property
    def saving(self) -> float:
        """User bytes per second of what is not computing: what a save costs the solver."""
        spent = self.rows["elapsed_ns"] - self.rows["stage_compute_ns"]
        return median((self.rows["user_bytes"] / spent * 1e9).to_list())

    def per_iteration(self, part: str) -> float:
        """Seconds of an iteration's wall time; the mean, so that the parts add up."""
        return float((self.rows[f"stage_{part}_ns"] / self.rows["iterations"]).mean() or 0) / 1e9  # type: ignore[arg-type]

    def _rates(self, size: str, time: str) -> list[float]:
        return (self.rows[size] / self.rows[time] * 1e9).to_list()


def why_not(analysis: Analysis) -> str | None:
    """Why the corrected figures are not drawn, or None."""
    rows = analysis.frame
    lacks = any(name not in rows.columns or rows[name].null_count() == len(rows) for name in NEEDS)
    if lacks or factor(analysis, VERSIONS) is None or factor(analysis, THREADS) is None:
        return "it belongs to live trials of the study durability"
    return None


def settings(analysis: Analysis, label: str) -> list[Setting]:
    """By policy in the order of the study, then by threads."""
    policies, threads = factor(analysis, VERSIONS), factor(analysis, THREADS)
    assert policies is not None  # `why_not` was asked before
    assert threads is not None
    own = (pl.col("role") == "trial") & (pl.col("label") == label)
    whole = pl.all_horizontal(pl.col(NEEDS).is_not_null())
    parts = analysis.frame.filter(own & whole).partition_by(
        policies.name, threads.name, as_dict=True
    )
    return [
        _setting(parts[p, t], p, int(amount(t) or 0))
        for p in policies.levels
        for t in threads.levels
        if (p, t) in parts
    ]


def _setting(rows: pl.DataFrame, policy: str, threads: int) -> Setting:
    first = rows.row(0, named=True)
    return Setting(policy, threads, str(first["contract"]), bool(first["atomic"]), rows)


def best(found: list[Setting]) -> list[Setting]:
    """Each policy at the number of threads with which most becomes durable."""
    names = dict.fromkeys(each.policy for each in found)
    alike = {name: [each for each in found if each.policy == name] for name in names}
    return [max(each, key=lambda one: median(one.durable)) for each in alike.values()]


def lost(one: Setting, tau: float) -> float:
    """Share of the time that a job loses to saving, redoing and restarting (see `tables`)."""
    save = STATE_BYTES / one.saving
    if one.contract == "behind":
        return 1 - interval.goodput_asynchronous(tau, save, soonest(one), MTBF_S, RESTART_S)
    return 1 - interval.goodput(tau, save, MTBF_S, RESTART_S)


def every(one: Setting) -> float:
    """The interval with the least loss; seconds of work between two saves."""
    save = STATE_BYTES / one.saving
    if one.contract == "behind":
        return interval.asynchronous(save, soonest(one), MTBF_S)
    return interval.optimal(save, MTBF_S)


def soonest(one: Setting) -> float:
    """The least interval: a save beside the work has to be durable before the next begins."""
    return STATE_BYTES / median(one.durable) if one.contract == "behind" else 0.0


def tables(analysis: Analysis) -> list[Table]:
    """What each policy buys, per target; and the ratio that the original study is about."""
    if why_not(analysis):
        return []
    made = []
    for result in analysis.results:
        found = settings(analysis, result.label)
        where = f" on {result.label}" if len(analysis.results) > 1 else ""
        made += [_bought(best(found), where)] if found else []
        made += [_ratios(found, where)] if any(_pairs(found)) else []
    return made


def _bought(found: list[Setting], where: str) -> Table:
    heads = ["policy", "promises", "after a crash", "threads", "seen GB/s", "durable GB/s"]
    heads += [f"a save of {STATE_BYTES / 1e9:g} GB", "save every", "time lost", "torn"]
    title, lines = f"What the policies buy{where}", [_line(one) for one in found]
    return Table("policies", title, heads, lines, NOTE, section="policies")


NOTE = (
    "Each policy at the number of threads with which most becomes durable. Seen: the bytes that "
    "the application saved per second, computing included. Durable: those that are on stable "
    "storage, until they are; where nothing is promised, that is the last save alone, by a flush "
    "after the end: the longer the run, the less. "
    f"The last columns are for a job of {STATE_BYTES / 1e9:g} GB of state that fails every "
    f"{MTBF_S / 3600:g} hours and takes {RESTART_S / 60:g} minutes to start again (Daly 2006): the "
    "interval with the least loss, the share of the time that saving, redoing lost work and "
    "restarting take, and the share of failures that strike in the middle of a save and find the "
    "only checkpoint torn. What crashes really left: savemark durability --crash."
)


def _line(one: Setting) -> Line:
    crash = "old or new" if one.atomic else "may be torn"
    data = [Datum(one.policy), Datum(_promise(one.contract)), Datum(crash)]
    data += [Datum(str(one.threads), one.threads), _rate(one.seen), _rate(one.durable)]
    if one.contract == "none":
        return Line([*data, *[MISSING] * 3, Datum("any")])
    tau, save = every(one), STATE_BYTES / one.saving
    torn = 0.0 if one.atomic else save / (tau + save)
    data += [Datum(duration(save), save), Datum(duration(tau), tau)]
    return Line([*data, _share(lost(one, tau)), _share(torn)])


def _promise(contract: str) -> str:
    # Not all that promises nothing is buffered: direct writes are handed to the device.
    return "nothing" if contract == "none" else PROMISES.get(contract, contract)


def _rate(rates: list[float]) -> Datum:
    value = median(rates)
    return Datum(gbs(value), value)


def _share(value: float) -> Datum:
    return Datum(f"{value * 100:.1f} %", value)


def _ratios(found: list[Setting], where: str) -> Table:
    heads = ["threads", f"{PLAIN} GB/s", f"{BETTER} GB/s", "ratio", "95 % interval"]
    lines = []
    for plain, better in _pairs(found):
        effect = ratio_of_medians(plain.seen, better.seen)
        data = [Datum(str(plain.threads), plain.threads), _rate(plain.seen), _rate(better.seen)]
        lines.append(Line([*data, Datum(f"{effect.value:.3g}×", effect.value), _interval(effect)]))
    note = "Median rates that the application saw. The interval is a bootstrap (BCa) of the ratio."
    title = f"One fsync against one per write{where}"
    return Table("policy_ratio", title, heads, lines, note, section="policies")


def _interval(effect: Effect) -> Datum:
    if effect.low is None or effect.high is None:
        return Datum(effect.method)
    return Datum(f"{effect.low:.3g}× to {effect.high:.3g}×", effect.low)


def _pairs(found: list[Setting]) -> list[tuple[Setting, Setting]]:
    plain = {one.threads: one for one in found if one.policy == PLAIN}
    return [(plain[o.threads], o) for o in found if o.policy == BETTER and o.threads in plain]
