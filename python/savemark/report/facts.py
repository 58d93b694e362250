"""The small tables: ceilings, coverage, machine."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from savemark.records import Run
from savemark.records.naming import setting, shown
from savemark.report.analysis import Analysis
from savemark.report.columns import Column, table
from savemark.report.document import Datum, Line, Table
from savemark.report.stopping import sentence
from savemark.report.text import binary, gbs, interval, span, two
from savemark.stats import Ceiling, TargetResult
from savemark.study.model import EVERY

ORDER = ("write", "read", "read_checked", "random_read", "fsync", "memcpy")


def ceiling_list(result: TargetResult) -> list[Ceiling]:
    """The ceilings of a target in the order in which people ask for them."""
    known = [result.ceilings[name] for name in ORDER if name in result.ceilings]
    return known + [c for name, c in result.ceilings.items() if name not in ORDER]


def headline(ceiling: Ceiling) -> str:
    """The one number that a ceiling is quoted by."""
    if ceiling.name == "fsync" and ceiling.sync_ns is not None:
        return f"fsync {span(ceiling.sync_ns)}"
    if ceiling.name == "random_read" and ceiling.iops is not None:
        return f"4k read {ceiling.iops / 1000:.0f}k IOPS"
    return f"{ceiling.name.replace('_', ' ')} {gbs(ceiling.rate)} GB/s"


def _titled(ceiling: Ceiling) -> str:
    if ceiling.name.startswith("codec/"):
        return f"{ceiling.title} {ceiling.phase} (one core)"
    return ceiling.title


def _per_second(ceiling: Ceiling) -> float | None:
    """Operations per second, where people ask for them."""
    return ceiling.iops or None if ceiling.name in ("random_read", "fsync") else None


CEILING = (
    Column("name", lambda c: c.name, head="ceiling", text=_titled),
    Column("phase", lambda c: c.phase),
    Column("bytes_per_s", lambda c: c.rate, gbs, "GB/s"),
    Column("bytes_per_s_low", lambda c: c.rates.low),
    Column("bytes_per_s_high", lambda c: c.rates.high),
    Column(
        "",
        lambda c: c.rates.low,
        head="[low high]",
        text=lambda c: interval(c.rates.low, c.rates.high),
        tip=lambda c: c.rates.kind,
        tone="quiet",
    ),
    Column("interval", lambda c: c.rates.kind),
    Column("operations_per_s", lambda c: c.iops),
    Column("", _per_second, lambda n: f"{n:,.0f}".replace(",", " "), "operations/s", unknown=""),
    Column("sync_ns", lambda c: c.sync_ns),
    Column("", lambda c: c.sync_ns or None, span, "sync latency", unknown=""),
    Column("ratio", lambda c: c.ratio),
    Column(
        "",
        lambda c: c.ratio if c.name.startswith("codec/") else None,
        two,
        "ratio",
        unknown="",
    ),
    Column("n", lambda c: c.seconds.n, head="n"),
)


def ceilings_table(result: TargetResult) -> Table:
    """All ceilings with their spread."""
    note = (
        "On the same target; a run measures them between its trials, once per repeat. Of one that "
        "was measured on several numbers of workers this is the fastest."
    )
    name, title = f"ceilings_{result.label}", f"Ceilings on {result.label}"
    return table(name, title, CEILING, ceiling_list(result), note)


def coverage_table(analysis: Analysis) -> Table:
    """What was planned, what finished, what did not."""
    run, lines = analysis.run, []
    for role in ("trial", "ceiling"):
        planned = [e for e in (run.plan or run.entries) if e.role == role]
        done = [e for e in run.entries if e.role == role]
        failed = [e for e in done if not e.ok]
        here = len(planned), len(done) - len(failed), len(failed), len(planned) - len(done)
        missing = sum(level.cells for level in run.missing_levels) if role == "trial" else 0
        missing *= run.study.repeats or 1
        counts = (here[0] + missing, *here[1:], missing)
        lines.append(Line([Datum(f"{role}s"), *(Datum(str(n), n) for n in counts)]))
    heads = ["", "planned", "finished", "failed", "not run", "unavailable"]
    order = run.study.order
    note = f"Order: {order}, seed {run.order_seed}. "
    note += "Each repeat is a block that holds every setting and every ceiling once."
    if run.study.most_trials:
        note += " The budget held this sample of the settings, each once."
    if rule := sentence(run):
        note += f" Then blocks of what is not known well enough, without ceilings. {rule}"
    if run.origin == "imported":
        note = "Imported: in the order of the files. Not run: what the design behind them has more."
    return Table("coverage", "Coverage", heads, lines, note)


def missing_table(run: Run) -> Table | None:
    """What this machine or its targets do not have, and why."""
    lines = [
        Line([
            Datum(setting(levels) if (levels := _levels(level.rule)) else EVERY, tone="name"),
            Datum(str(level.rule.get("target", ""))),
            Datum(str(level.cells), level.cells),
            Datum(level.reason),
            Datum(level.hint or ""),
        ])
        for level in run.missing_levels
    ]  # fmt: skip
    heads = ["unavailable", "target", "settings", "why", "what to do"]
    note = (
        "Left out of the run: what a small trial before it showed this place to refuse,"
        " and what another tool cannot express."
    )
    return Table("unavailable", "Unavailable here", heads, lines, note) if lines else None


def _levels(rule: dict[str, Any]) -> dict[str, Any]:
    """Return the levels of a rule, several of one factor as `16|36`."""
    return {
        name: "|".join(map(str, level)) if isinstance(level, list) else level
        for name, level in rule.items()
        if name != "target"
    }


def failures_table(run: Run) -> Table | None:
    """Every failed trial with what it said."""
    lines = [
        Line([
            Datum(str(e.index), e.index),
            Datum(setting(e.factors) if e.role == "trial" else e.name),
            Datum(e.label),
            Datum(str(e.repeat + 1), e.repeat),
            Datum((e.error and e.error.message) or ""),
            Datum((e.error and e.error.hint) or ""),
        ])
        for e in run.failed
    ]  # fmt: skip
    heads = ["trial", "setting", "target", "repeat", "what happened", "what to do"]
    return Table("failures", "Failed trials", heads, lines) if lines else None


def design_table(run: Run) -> Table:
    """Factors and their levels."""
    factors = run.study.factors
    lines = [
        Line([Datum(name), Datum(", ".join("none" if v is None else str(v) for v in levels))])
        for name, levels in factors.items()
    ]
    for part, own in run.study.parts.items():
        varied = own.factors.items()
        told = [
            (name, ", ".join(shown(name, level) for level in levels)) for name, levels in varied
        ]
        told += [(name, f"{_value(name, v)} (fixed)") for name, v in own.trial.items()]
        lines += [Line([Datum(f"{part}: {name}"), Datum(text)]) for name, text in told]
    fixed = {**run.study.defaults, **run.study.trial}
    lines += [Line([Datum(name), Datum(f"{_value(name, v)} (fixed)")]) for name, v in fixed.items()]
    lines.append(
        Line([Datum("repeats"), Datum("" if run.study.repeats is None else str(run.study.repeats))])
    )
    return Table("design", "Design", ["factor", "levels"], lines)


def runs_table(run: Run) -> Table | None:
    """The runs that were put together, each with its name."""
    lines = [
        Line([
            Datum(name, tone="name"),
            Datum(part.started_at.replace("T", " ")),
            Datum(part.version),
            Datum(part.host.cpu.model or ""),
            Datum(part.host.kernel_release or ""),
            Datum(shlex.join(part.command)),
            Datum(str(part.folder)),
        ])
        for name, part in run.parts.items()
    ]  # fmt: skip
    heads = ["run", "started", "savemark", "processor", "kernel", "command", "folder"]
    return Table("runs", "Runs", heads, lines) if lines else None


def machine_table(run: Run) -> Table:
    """The host as recorded, whatever it holds."""
    host = dict(run.host_facts)
    if len(run.targets) > 1:
        host.pop("target", None)  # that of the first; each has its own lines below
    lines = [Line([Datum(name), Datum(text)]) for name, text in _flat(host)]
    for target in run.targets:
        name = f"target {target.label}"
        lines.append(Line([Datum(name), Datum(target.target)]))
        if len(run.targets) > 1:
            lines += [Line([Datum(k), Datum(v)]) for k, v in _flat(target.facts, name)]
    lines += [
        Line([Datum("savemark"), Datum(run.version)]),
        Line([Datum("run"), Datum(run.run_id)]),
    ]
    return Table("machine", "Machine", ["what", "value"], lines)


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _flat(part, f"{name} {str(key).replace('_', ' ')}".strip())
    elif isinstance(value, list) and any(isinstance(part, dict) for part in value):
        for place, part in enumerate(value, 1):
            yield from _flat(part, f"{name} {place}")
    elif isinstance(value, list):
        yield name, ", ".join(str(part) for part in value) or "none"
    elif value not in (None, ""):
        yield name, _value(name, value)


def _value(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    sized = name.endswith(("bytes", "size", "chunk_size"))
    if sized and isinstance(value, int) and value >= 2**16:
        return f"{binary(value)} ({value:,} bytes)".replace(",", " ")
    return "none" if value is None else str(value)
