"""`savemark advise`: settings and intervals, as data and on a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from savemark.advice.best import GOALS, PHASES, Best, best, costs, stored, trade_offs
from savemark.advice.plan import Choice, Job, asynchronous, choices, needed
from savemark.report.document import Datum, Line, Table
from savemark.report.grid import labelled, print_table
from savemark.report.text import binary, both, gbs, needed_gbs, planned, seconds, sold, tenth
from savemark.report.verdict import why_none
from savemark.stats import TOTAL, Cell, PhaseStat, TargetResult


def settings_json(result: TargetResult, goals: list[str]) -> dict[str, Any]:
    """Return the best settings of one target as data."""
    found = {goal: best(result, goal) for goal in goals}
    return {
        "label": result.label,
        "target": result.target,
        "state": result.cells[0].given,
        "best": {goal: one and _best_json(one) for goal, one in found.items()},
        "no_advice": {goal: _why_none(result, goal) for goal, one in found.items() if one is None},
        "pareto": [_cell_json(cell) for cell in trade_offs(result)],
    }


def _best_json(found: Best) -> dict[str, Any]:
    tied = [cell.setting for cell in found.tied]
    return {
        **_cell_json(found.cell),
        "tied": tied,
        "rule": found.rule,
        "binds": found.binds,
        "repeats": found.cell.n,
    }


def _cell_json(cell: Cell) -> dict[str, Any]:
    total, count, cpu = costs(cell)
    return {
        "setting": cell.setting,
        "factors": dict(cell.factors),
        "total_s": total,
        "stored_bytes": count,
        "cpu_s_per_gib": cpu,
        "phases": {
            name: {"s_median": phase.seconds.median, "user_bytes_per_s": phase.user_rate}
            for name, phase in cell.phases.items()
        },
    }


def show_settings(result: TargetResult, goals: list[str], console: Console) -> None:
    """Print the best setting for each goal, what ties, what binds, and the trade-offs."""
    state = f", for {result.cells[0].given}" if result.cells[0].given else ""
    console.print(Text(f"What to use on {result.target}{state}", "bold"))
    found = {goal: best(result, goal) for goal in goals}
    chosen = [one for one in found.values() if one]
    if chosen:
        print_table(console, _goals(chosen))
    for goal, one in found.items():
        if one is None:
            labelled(console, goal, _why_none(result, goal), "cyan")
        elif one.tied:
            tied = both([cell.setting for cell in one.tied], 8)
            labelled(console, goal, f"tied with {tied} ({one.rule})")
    for one in {one.cell.setting: one for one in chosen}.values():
        if one.binds:
            bound = ", ".join(f"{name} at {text}" for name, text in one.binds.items())
            labelled(console, "limit", f"{one.cell.setting}: {bound}")
    front = trade_offs(result)
    if len(front) > 1:
        console.print()
        console.print(Text("Trade-offs: no other setting is better in all three", "bold"))
        print_table(console, _front(front))


def _why_none(result: TargetResult, goal: str) -> str:
    measure = next((n for n in PHASES.get(goal, ()) if n in result.phases), TOTAL)
    if result.faster_blocked(measure):
        return f"no advice: {why_none(result, measure)}"
    return "no valid setting has what this goal asks for"


def _goals(found: list[Best]) -> Table:
    phases = list(dict.fromkeys(name for one in found for name in one.cell.phases))
    heads = ["goal", "use", *(f"{name} GB/s" for name in phases), "ratio", "CPU s/GiB", ""]
    lines = []
    for one in found:
        cell = one.cell
        data = [Datum(one.goal), Datum(cell.setting)]
        for name in phases:
            shown = name in cell.phases and name not in cell.blocked
            data.append(Datum(_speed(cell.phases[name]) if shown else "–", 0.0))
        costs = (cell.ratio, cell.cpu_s_per_gib)
        data += [Datum(f"{each:.2f}" if cell.sized else "–", 0.0) for each in costs]
        lines.append(Line([*data, Datum(GOALS[one.goal])]))
    return Table("goals", "", heads, lines)


def _speed(phase: PhaseStat) -> str:
    """GB/s, or the seconds of what was imported without bytes."""
    return gbs(phase.user_rate) if phase.user_bytes else f"{seconds(phase.seconds.median)} s"


def _front(cells: list[Cell]) -> Table:
    lines = []
    for cell in cells:
        total, _, cpu = costs(cell)
        data = [Datum(cell.setting), Datum(seconds(total), total)]
        data += [Datum(binary(stored(cell)), 0.0), Datum(f"{cpu:.2f}", cpu)]
        lines.append(Line(data))
    return Table("pareto", "", ["setting", "total s", "stored", "CPU s/GiB"], lines)


def job_json(job: Job, source: str) -> dict[str, Any]:
    """Return the interval plan as data; seconds and bytes."""
    found = choices(job)
    return {
        "state_bytes": job.state,
        "mtbf_s": job.mtbf,
        "save_bytes_per_s": job.save_rate,
        "restore_bytes_per_s": job.restore_rate,
        "bandwidth_from": source,
        "save_s": job.save_s,
        "recovery_s": job.recovery_s,
        "stall_s": job.stall,
        "intervals": [_choice_json(each) for each in found],
        "simulated_goodput": job.simulated(found[0].tau),
        "asynchronous": _choice_json(asynchronous(job)),
        "needed_bandwidth": [
            {
                "gpus": each.gpus,
                "mtbf_s": each.mtbf,
                "overhead": each.overhead,
                "blocking_bytes_per_s": each.blocking,
                "asynchronous_bytes_per_s": each.asynchronous,
            }
            for each in needed(job.state, job.gpu_mtbf)
        ],
    }


def _choice_json(found: Choice) -> dict[str, Any]:
    return {"name": found.name, "interval_s": found.tau, "goodput": found.goodput}


def show_job(job: Job, source: str, console: Console) -> None:
    """Print the interval plan."""
    found, behind = choices(job), asynchronous(job)
    optimal = found[0]
    console.print(Text("How often to save", "bold"))
    labelled(console, "state", f"{sold(job.state)}; a failure every {planned(job.mtbf)}")
    labelled(
        console,
        "bandwidth",
        f"save {gbs(job.save_rate)} GB/s, restore {gbs(job.restore_rate)} GB/s ({source})",
    )
    labelled(
        console,
        "times",
        f"a save takes {planned(job.save_s)}; from a failure to work again "
        f"{planned(job.recovery_s)} ({planned(job.restart)} to detect and start, the rest reading)",
    )
    console.print()
    labelled(console, "save every", _advice(optimal, behind), "green")
    for warning in _warnings(job, behind):
        labelled(console, "note", warning, "cyan")
    console.print()
    print_table(console, _intervals(job, [*found, behind]))
    simulated = job.simulated(optimal.tau)
    if simulated is not None:
        console.print(
            Text(
                f"simulated at the optimal interval: {simulated:.2%} useful".replace("%", " %"),
                "dim",
            )
        )
    console.print()
    console.print(Text("Write bandwidth that this state needs, GB/s", "bold"))
    print_table(console, _needed(job))
    console.print(
        Text(
            f"Each GPU fails every {job.gpu_mtbf / 3600:,.0f} h; “blocking 1 %” = saving and lost "
            "work cost 1 % of the time. Of all writers together, durable.",
            "dim",
        )
    )


def _advice(optimal: Choice, behind: Choice) -> str:
    blocking = f"{planned(optimal.tau)} where a save blocks: {tenth(optimal.goodput)} useful time"
    if behind.goodput <= optimal.goodput:
        return blocking
    return f"{blocking}; {planned(behind.tau)} where it does not: {tenth(behind.goodput)}"


def _warnings(job: Job, behind: Choice) -> list[str]:
    found = []
    if job.save_s > job.mtbf:
        found.append("a save takes longer than the time between two failures: most are lost")
    elif job.save_s > job.mtbf / 2:
        found.append("a save takes more than half of the time between two failures")
    if behind.tau == job.save_s:
        found.append("asynchronous saves follow each other without a pause: bandwidth limits them")
    return found


def _intervals(job: Job, found: list[Choice]) -> Table:
    lines = [
        Line([
            Datum(each.name),
            Datum(planned(each.tau), each.tau),
            Datum(tenth(each.goodput), each.goodput),
            Datum(planned(job.save_s if each.name != "asynchronous" else job.stall), 0.0),
        ])
        for each in found
    ]  # fmt: skip
    heads = ["", "interval", "useful time", "stopped per save"]
    return Table("intervals", "", heads, lines)


def _needed(job: Job) -> Table:
    rows = needed(job.state, job.gpu_mtbf)
    heads = ["GPUs", "failure every", "blocking 1 %", "5 %", "asynchronous 1 %", "5 %"]
    lines = []
    for gpus in dict.fromkeys(each.gpus for each in rows):
        one, five = (each for each in rows if each.gpus == gpus)
        rates = (one.blocking, five.blocking, one.asynchronous, five.asynchronous)
        data = [Datum(f"{gpus:,}", gpus), Datum(planned(one.mtbf), one.mtbf)]
        lines.append(Line(data + [Datum(needed_gbs(rate), rate) for rate in rates]))
    return Table("needed", "", heads, lines)
