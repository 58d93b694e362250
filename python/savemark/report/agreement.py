"""`savemark crosscheck`: this program and other tools, side by side, as data and as Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.text import Text

from savemark import escape
from savemark.checks import Evidence
from savemark.checks.memory import same_memory
from savemark.records import phases
from savemark.records.evidence import READS
from savemark.records.naming import shown
from savemark.records.run import Run
from savemark.report import sides
from savemark.report.analysis import Analysis, analyse
from savemark.report.comparison import interval
from savemark.report.document import Datum, Line, Table, quantity
from savemark.report.grid import print_table
from savemark.report.markdown import table as markdown_table
from savemark.report.text import gbs, p_text, two
from savemark.report.visible import KEYS, forbidden
from savemark.run.crosscheck import HEAD
from savemark.run.phases import OF_PROCESS
from savemark.stats.cells import BYTES, Key, unit_of
from savemark.stats.effect import Effect
from savemark.stats.pairs import Pair, Times, compare
from savemark.stats.repeats import repeats_needed
from savemark.tools import ENGINE

WORDS = {"not told apart": "tied", "too few repeats": "too few repeats to tell"}
# The options that say what was done.
COMPARED = (
    *("storage", "size", "items", "transfer_size", "queue_depth", "streams", "workers"),
    *("block_size", "direct", "sync", "duration", "payload", "huge_pages"),
)
HOW = (
    "Each line is the median of its repeats, interleaved with those of the others; ± is half its "
    "95 % interval, or half the range below 6 repeats. Ratio: rate against savemark’s, with a "
    "bootstrap interval of the change. Device: what the disk’s own counters saw per byte moved; "
    "far below 1 it was not the disk that was measured. Tied: the exact Mann-Whitney test, "
    "Holm-corrected over the {count} comparisons, cannot tell them apart at 0.05. CPU is that of "
    "the whole process, its start included; what the kernel does for it elsewhere is not in it."
)


@dataclass(frozen=True, slots=True)
class Row:
    """One phase of one tool."""

    tool: str
    phase: str
    rate: float  # bytes or operations per second
    unit: str  # "B" or "op"
    spread: float | None  # ± share
    cpu_s_per_op: float
    device: float | None  # bytes that the disk saw per byte moved
    pair: Pair | None  # against this program; None for itself
    n: int


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of work."""

    name: str
    run: Run
    rows: list[Row]
    refused: dict[str, str]
    notes: list[str]  # what the times of a tool are, and what else is not the same


def read(folder: Path, *, show_blocked: bool = False) -> list[Part]:
    """Read the run folders of a crosscheck; all its comparisons are one family.

    What a check forbids is not compared, unless `show_blocked` asks for it.
    """
    head = json.loads((folder / HEAD).read_text(encoding="utf-8"))
    runs = [(each, analyse(folder / each["name"], show_blocked=show_blocked)) for each in head]
    samples = [_samples(analysis.frame) for _, analysis in runs]
    found: dict[tuple[int, str, str], Pair] = {}
    for each in _paired(samples):
        found |= each
    return [
        Part(
            each["name"],
            analysis.run,
            _rows(number, samples[number], found),
            each["refused"],
            [*_notes(analysis.run), *_blocked(analysis)],
        )
        for number, (each, analysis) in enumerate(runs)
    ]


def _blocked(analysis: Analysis) -> list[str]:
    """Return what is not compared since a check forbids its numbers, a line for each check."""
    if analysis.show_blocked:
        return []
    rows = phases(analysis.run).join(forbidden(analysis.results), on=KEYS, maintain_order="left")
    # The run's order is drawn anew each time: this program first, as in the table.
    rows = rows.sort(pl.col("tool") != ENGINE, "tool", maintain_order=True)
    found: dict[str, dict[str, None]] = {}
    for tool, phase, check in rows.select("tool", "phase", "blocked_by").rows():
        found.setdefault(check, {})[f"{tool} {phase}"] = None
    return [
        f"not compared: {', '.join(names)}: {check} forbids the numbers (--show-blocked)"
        for check, names in found.items()
    ]


def _notes(run: Run) -> list[str]:
    """Return what was noted on the phases of each tool, once, and whether it had other memory."""
    found: dict[str, dict[str, str]] = {}
    for entry in run.entries:
        record = entry.record
        if record is None or record.tool is None:
            continue
        start = record.tool.process_ns
        alone = f" ({start / 1e9:.2f} s to print its version)" if start else ""
        for note in (note for phase in record.phases for note in phase.notes):
            found.setdefault(note, {})[record.tool.name] = alone if note == OF_PROCESS else ""
    memory = same_memory(Evidence(run, phases(run), []))
    return [
        *(
            f"{', '.join(f'{name}{alone}' for name, alone in sorted(tools.items()))}: {note}"
            for note, tools in sorted(found.items())
        ),
        *([memory.message] if memory.verdict.fired else []),
    ]


@dataclass(frozen=True, slots=True)
class _Sample:
    seconds: tuple[float, ...]  # per unit: a byte or an operation
    unit: str
    cpu_s_per_op: float
    device: float | None


def _samples(frame: pl.DataFrame) -> dict[tuple[str, str], _Sample]:
    """Return the times of each tool and phase per byte, or per operation where names are moved."""
    known = pl.col("phase").is_not_null() & pl.col("elapsed_ns").is_not_null()
    frame = frame.filter(known & (pl.col("phase") != "prepare"))
    found = {}
    for (tool, phase), rows in frame.group_by("tool", "phase", maintain_order=True):
        unit = "B" if unit_of(str(rows["workload"][0]), str(phase)) == BYTES else "op"
        column = "io_count" if unit == "op" else "user_bytes"
        seconds = (rows["elapsed_ns"] / 1e9 / rows[column]).to_list()
        cpu = int(rows["cpu_user_ns"].sum()) + int(rows["cpu_system_ns"].sum())
        per_op = cpu / 1e9 / max(int(rows["io_count"].sum()), 1)
        found[str(tool), str(phase)] = _Sample(tuple(seconds), unit, per_op, _device(rows))
    return found


def _device(rows: pl.DataFrame) -> float | None:
    """Return the bytes that the disk saw per byte moved; None where no counter is known."""
    way = "read" if rows["phase"][0] in READS else "written"
    seen, moved = rows[f"device_{way}_bytes"].sum(), rows["user_bytes"].sum()
    known = rows["device_name"].null_count() == 0 and rows[f"device_{way}_bytes"].null_count() == 0
    return float(seen) / float(moved) if known and moved else None


def _paired(
    samples: Sequence[dict[tuple[str, str], _Sample]],
) -> list[dict[tuple[int, str, str], Pair]]:
    tools = dict.fromkeys(tool for part in samples for tool, _ in part if tool != ENGINE)

    def times(wanted: str) -> dict[Key, Times]:
        return {
            Key(str(number), "", phase): Times(sample.seconds, 0)
            for number, part in enumerate(samples)
            for (tool, phase), sample in part.items()
            if tool == wanted
        }

    compared = compare(times(ENGINE), [times(tool) for tool in tools])
    return [
        {(int(pair.key.label), tool, pair.key.phase): pair for pair in pairs}
        for tool, pairs in zip(tools, compared, strict=True)
    ]


def _rows(
    number: int,
    samples: dict[tuple[str, str], _Sample],
    pairs: dict[tuple[int, str, str], Pair],
) -> list[Row]:
    from savemark.stats import spread

    order = list(dict.fromkeys(phase for _, phase in samples))
    rows = []
    for (tool, phase), sample in samples.items():
        each = spread(sample.seconds)
        half = (each.high - each.low) / 2 / each.median
        pair = pairs.get((number, tool, phase))
        if pair is None and tool != ENGINE:
            continue  # this program has no such phase
        cpu = sample.cpu_s_per_op
        rate, seen = 1 / each.median, sample.device
        rows.append(Row(tool, phase, rate, sample.unit, half, cpu, seen, pair, each.n))
    return sorted(rows, key=lambda row: (order.index(row.phase), row.tool != ENGINE, -row.rate))


def _table(part: Part) -> Table:
    heads = ["phase", "tool", "rate", "±", "ratio", "[95 %]", "p", "", "CPU µs/op", "device"]
    return Table(part.name, part.name, heads, [_line(row) for row in part.rows])


def _line(row: Row) -> Line:
    rate = f"{gbs(row.rate)} GB/s" if row.unit == "B" else f"{row.rate / 1e3:.1f} k/s"
    half = "–" if row.spread is None else f"{row.spread * 100:.0f} %"
    data = [Datum(row.phase), Datum(row.tool), Datum(rate, row.rate), Datum(half, 0.0)]
    if row.pair is None:
        data += [Datum("1", 1.0), Datum(""), Datum(""), Datum("")]
    else:
        ratio = 1 / row.pair.ratio.value
        verdict = WORDS.get(row.pair.verdict, row.pair.verdict)
        data += [Datum(f"{ratio:.2f}", ratio), Datum(interval(_of_rates(row.pair.ratio)))]
        data += [Datum(p_text(row.pair.p_adjusted), row.pair.p_adjusted), Datum(verdict)]
    data += [Datum(f"{row.cpu_s_per_op * 1e6:.1f}", row.cpu_s_per_op)]
    return Line([*data, quantity(row.device, two)])


def _of_rates(times: Effect) -> Effect:
    """Return the ratio of rates from that of times."""
    if times.low is None or times.high is None:
        return Effect(1 / times.value, None, None, times.method)
    return Effect(1 / times.value, 1 / times.high, 1 / times.low, times.method)


def markdown(parts: Sequence[Part]) -> str:
    """Return the tables, what could not be compared and why, and how to read them."""
    first = parts[0].run
    text = ["# Crosscheck", "", escape.markdown(_where(first)), ""]
    for part in parts:
        title = escape.markdown(f"{part.name}: {_options(part)}")
        text += [f"## {title}", "", markdown_table(_table(part))]
        said = sides.markdown_notes([*part.notes, *_left_out(part)])
        text += [*said, ""] if said else []
    versions = [f"{name} {said}" for name, said in _versions(parts)]
    text += ["## Versions", "", *sides.markdown_notes(versions), ""]
    return "\n".join([*text, _how(parts), ""])


def _left_out(part: Part) -> list[str]:
    """Return why tools are not in a part; what is true of several is said once."""
    found: dict[str, dict[str, None]] = {}
    for why in part.refused.values():
        tool, _, reason = why.partition(" ")
        found.setdefault(reason, {})[tool] = None
    return [f"left out: {', '.join(tools)} {reason}" for reason, tools in found.items()]


def show(parts: Sequence[Part], console: Console) -> None:
    """Print the same on a terminal."""
    console.print(Text(_where(parts[0].run)))
    for part in parts:
        console.print()
        console.print(Text(f"{part.name}: {_options(part)}", "bold"))
        print_table(console, _table(part))
        for said in (*part.notes, *_left_out(part)):
            console.print(Text(said, "dim"))
    console.print()
    console.print(Text(_how(parts), "dim"))


def as_json(parts: Sequence[Part]) -> dict[str, Any]:
    """Return it as data, base units."""
    return {
        "schema": 1,
        "versions": dict(_versions(parts)),
        "parts": [
            {"name": part.name, "run": str(part.run.folder), "refused": part.refused}
            | {"notes": part.notes, "rows": [_row_json(row) for row in part.rows]}
            for part in parts
        ],
    }


def _row_json(row: Row) -> dict[str, Any]:
    data: dict[str, Any] = {"tool": row.tool, "phase": row.phase, "n": row.n}
    data["bytes_per_s" if row.unit == "B" else "operations_per_s"] = row.rate
    data |= {"half_width": row.spread, "cpu_s_per_operation": row.cpu_s_per_op}
    data["device_share"] = row.device
    if row.pair is not None:
        data |= {"ratio": 1 / row.pair.ratio.value, "p_adjusted": row.pair.p_adjusted}
        data["verdict"] = WORDS.get(row.pair.verdict, row.pair.verdict)
    return data


def _where(run: Run) -> str:
    target = run.targets[0].target if run.targets else ""
    cpu = run.host.cpu.model or "?"
    return f"{target} · {cpu} · Linux {run.host.kernel_release} · savemark {run.version}"


def _options(part: Part) -> str:
    """Return the options in words: what every tool was told."""
    records = (entry.record for entry in part.run.entries)
    trial = next((record.trial for record in records if record), {})
    given = ((name, trial.get(name)) for name in COMPARED)
    words = [f"{n.replace('_', ' ')} {shown(n, v)}" for n, v in given if v is not None]
    repeats = part.run.study.repeats or 0
    return ", ".join([f"{repeats} repeat{'s' * (repeats != 1)}", *words])


def _versions(parts: Sequence[Part]) -> list[tuple[str, str]]:
    found = {}
    for part in parts:
        for entry in part.run.entries:
            if (record := entry.record) and record.tool:
                found[record.tool.name] = record.tool.version or "of unknown version"
    return sorted(found.items())


def _how(parts: Sequence[Part]) -> str:
    tests = sum(row.pair is not None for part in parts for row in part.rows)
    needed = repeats_needed(tests) if tests else 0
    few = any(row.pair and row.pair.verdict == "too few repeats" for p in parts for row in p.rows)
    more = f" With --repeats {needed} every comparison can be tested." if few else ""
    return HOW.format(count=tests) + more
