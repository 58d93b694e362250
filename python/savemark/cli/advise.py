"""`savemark advise`: the best setting for a goal, and how often to save."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from savemark import files
from savemark.cli import _units
from savemark.cli._options import json_option
from savemark.cli._print import echo, terminal
from savemark.errors import usage

if TYPE_CHECKING:
    from savemark.advice.plan import Job
    from savemark.stats import TargetResult

GOALS = ("freeze", "restore", "bytes", "cpu", "balanced")


@click.command("advise", short_help="The best setting for a goal, and how often to save.")
@click.argument("run", required=False, type=click.Path(path_type=Path), metavar="[RUN_DIR]")
@click.option(
    "--goal",
    type=click.Choice(GOALS),
    help="What to optimise; all of them when left out.  [planner: freeze]",
)
@click.option(
    "--state-size", callback=_units.size, metavar="SIZE", help="Size of the state: 5.68TB."
)
@click.option(
    "--params", callback=_units.count, metavar="N", help="Parameters of a model instead: 405e9."
)
@click.option(
    "--bytes-per-param",
    type=click.FloatRange(min=0, min_open=True),
    default=14.0,
    show_default=True,
    metavar="N",
    help="14 mixed-precision Adam, 10 without fp32 master, 8 8-bit Adam, 2 weights only.",
)
@click.option(
    "--mtbf", callback=_units.span, metavar="TIME", help="Time between failures of the job."
)
@click.option(
    "--gpus", callback=_units.count, metavar="N", help="GPUs of the job, instead of --mtbf."
)
@click.option(
    "--gpu-mtbf",
    callback=_units.span,
    default="50700h",
    show_default=True,
    metavar="TIME",
    help="Time between failures of one GPU (the default: Llama 3 on H100).",
)
@click.option(
    "--save-bandwidth",
    callback=_units.rate,
    metavar="RATE",
    help="Of all writers together, durable: 25GB/s.  [default: the run’s]",
)
@click.option(
    "--restore-bandwidth",
    callback=_units.rate,
    metavar="RATE",
    help="Of all readers together.  [default: the run’s, or --save-bandwidth]",
)
@click.option(
    "--nodes",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="Nodes that save at once, each as fast as in the run (if the storage keeps up).",
)
@click.option(
    "--restart",
    callback=_units.span_or_zero,
    default="5m",
    show_default=True,
    metavar="TIME",
    help="From a failure until the restore begins.",
)
@click.option(
    "--stall",
    callback=_units.span_or_zero,
    default="0s",
    show_default=True,
    metavar="TIME",
    help="How long an asynchronous save stops the work.",
)
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE.svg", help="Draw goodput.")
@json_option("the advice")
def command(run: Path | None, goal: str | None, as_json: bool, **asked: Any) -> None:
    """Say which setting of RUN_DIR serves a goal best, and how often a job should save.

    The interval needs the size of the state (--state-size or --params) and how often the job fails
    (--mtbf or --gpus); without RUN_DIR also --save-bandwidth.
    """
    state, plan = _state(asked), _planned(asked)
    if run is None and not plan:
        raise usage(
            "nothing to advise on: neither a run nor a job",
            "savemark advise RUN_DIR, or --state-size 5.68TB --gpus 16384 --save-bandwidth 400GB/s",
        )
    results = _results(run) if run is not None else []
    job, source = (_job(asked, state, results, goal or "freeze")) if plan else (None, "")
    if asked["plot"] is not None:
        _draw(job, asked["plot"])
    goals = [goal] if goal else list(GOALS)
    if as_json:
        echo(json.dumps(_json(results, goals, job, source)))
    else:
        _show(results, goals, job, source)
        if asked["plot"] is not None:
            echo(f"plot       {asked['plot']}")


def _state(asked: dict[str, Any]) -> float | None:
    if asked["state_size"] is not None and asked["params"] is not None:
        raise usage("--state-size and --params both say the size", "leave one of them out")
    params: float | None = asked["params"]
    size: float | None = asked["state_size"]
    return params * float(asked["bytes_per_param"]) if params is not None else size


def _planned(asked: dict[str, Any]) -> bool:
    """Whether a job was described; half a description is an error that names the other half."""
    said = [asked["mtbf"], asked["gpus"], asked["state_size"], asked["params"], asked["plot"]]
    if all(each is None for each in said):
        return False
    if asked["state_size"] is None and asked["params"] is None:
        raise usage(
            "the interval needs the size of the state", "--state-size 5.68TB or --params 405e9"
        )
    if asked["mtbf"] is None and asked["gpus"] is None:
        raise usage("the interval needs how often the job fails", "--mtbf 3h or --gpus 16384")
    if asked["mtbf"] is not None and asked["gpus"] is not None:
        raise usage("--mtbf and --gpus both say how often the job fails", "leave one of them out")
    return True


def _results(run: Path) -> list[TargetResult]:
    from savemark.report.analysis import analyse

    # What is saved is given, not chosen: settings compete for the same state only.
    parts = (part for result in analyse(run).results for part in result.by_given().values())
    results = [part for part in parts if part.cells]
    if not results:
        raise usage(f"{run} has no trial to advise on", f"savemark run --resume {run}")
    return results


def _job(
    asked: dict[str, Any], state: float | None, results: list[TargetResult], goal: str
) -> tuple[Job, str]:
    from savemark.advice.plan import Job

    save, restore, source = _bandwidth(asked, results, goal)
    mtbf = asked["mtbf"] or asked["gpu_mtbf"] / asked["gpus"]
    assert state is not None  # _planned has asked for it
    job = Job(
        state=state,
        save_rate=save,
        restore_rate=restore,
        mtbf=mtbf,
        restart=asked["restart"],
        stall=asked["stall"],
        gpu_mtbf=asked["gpu_mtbf"],
    )
    return job, source


def _bandwidth(
    asked: dict[str, Any], results: list[TargetResult], goal: str
) -> tuple[float, float, str]:
    save, restore = asked["save_bandwidth"], asked["restore_bandwidth"]
    if save is not None:
        return save, restore or save, "as given"
    if not results:
        raise usage("the interval needs a save bandwidth", "--save-bandwidth 25GB/s, or a run")
    from savemark.advice.best import best
    from savemark.report.text import both

    if len(results) > 1:
        labels = both([f"{result.label} {result.cells[0].given}".strip() for result in results])
        raise usage(
            f"the run measured several things ({labels})",
            "give --save-bandwidth and --restore-bandwidth",
        )
    found = best(results[0], goal)
    phases = found.cell.phases if found else {}
    writes = next((phases[n] for n in ("save", "write") if n in phases), None)
    reads = next((phases[n] for n in ("restore", "read") if n in phases), writes)
    if found is None or writes is None or reads is None:
        raise usage(f"no valid setting of this run saves (goal {goal})", "--save-bandwidth 25GB/s")
    nodes = asked["nodes"]
    many = f", {nodes} nodes at once" if nodes > 1 else ", one node"
    source = f"{found.cell.setting} in this run{many}"
    return writes.user_rate * nodes, restore or reads.user_rate * nodes, source


def _draw(job: Job | None, file: Path) -> None:
    from savemark.report.goodput import drawing

    assert job is not None  # --plot without a job was refused
    if file.suffix != ".svg":
        raise usage(f"{file} is not an .svg file", "--plot interval.svg")
    files.write_text(file, drawing(job))


def _json(
    results: list[TargetResult], goals: list[str], job: Job | None, source: str
) -> dict[str, Any]:
    from savemark.report import advising

    return {
        "schema": 1,
        "targets": [advising.settings_json(result, goals) for result in results],
        "interval": advising.job_json(job, source) if job else None,
    }


def _show(results: list[TargetResult], goals: list[str], job: Job | None, source: str) -> None:

    from savemark.report import advising

    console = terminal()
    for result in results:
        advising.show_settings(result, goals, console)
        console.print()
    if job is not None:
        advising.show_job(job, source, console)
