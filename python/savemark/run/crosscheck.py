"""The same settings through this program and every tool that is there, one study per kind of work.

Each study is an ordinary one, with `tool` as a factor: its blocks interleave the tools, its run
folder can be reported and checked. What a tool cannot express is left out of it, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import savemark._engine as engine
from savemark import tools
from savemark.errors import SavemarkError, usage
from savemark.run.request import Request
from savemark.run.start import start
from savemark.run.target import Target
from savemark.run.watcher import Watcher
from savemark.study.keys import TOOL, Trial, resolve
from savemark.study.model import Study
from savemark.tools import ENGINE

MIB = 1 << 20
HEAD = "crosscheck.json"
# Random bytes: every tool can make or copy them, and no storage makes them smaller.
COMMON: Trial = {"payload": "random"}
# IOR's layouts, as more than IOR can do them: nobody syncs, each reads what it wrote, and the page
# cache is dropped in between.
UNSHIFTED: Trial = {"sync": "none", "reorder": 0}
# The memory that tools have, too: some devices are twice as fast into large pages.
BLOCKS: Trial = {"transfer_size": MIB, "huge_pages": False}
LAYOUT: Trial = {**BLOCKS, "workers": 2, "segments": 1, **UNSHIFTED}
IN_DIRECTORY: dict[str, Trial] = {
    "sequential": {**BLOCKS, "queue_depth": 1},
    "queued": {**BLOCKS, "workload": "sequential", "queue_depth": 8},
    "unsynced": {**BLOCKS, "workload": "sequential", "queue_depth": 1, "sync": "none"},
    "random": {**BLOCKS, "transfer_size": 4096, "queue_depth": 16, "duration": 3}
    | {"operation": "read"},
    "shared_file": LAYOUT,
    "file_per_process": LAYOUT,
    # What was renamed before is dearer to remove, and no tool renames.
    "metadata": {"items": 10_000, "rename": False},
}
IN_BUCKET: dict[str, Trial] = {
    "sequential": {"transfer_size": 8 * MIB, "queue_depth": 4, "part_size": 8 * MIB},
    "checkpoint": {"streams": 4, "chunk_size": 8 * MIB, "part_size": 8 * MIB, "codec": "none"},
    "random": {"transfer_size": 64 << 10, "queue_depth": 8, "duration": 3, "operation": "read"},
}


@dataclass(frozen=True)
class Part:
    """One kind of work: its study, and which tool cannot do what of it, and why."""

    name: str
    study: Study
    refused: dict[str, str]  # by "tool" or "tool operation"


@dataclass(frozen=True)
class Wanted:
    """What the command line asked for."""

    target: Target
    tools: Sequence[str]
    only: Sequence[str]
    size: int
    repeats: int


def parts(wanted: Wanted) -> list[Part]:
    """Return the studies in which at least one tool can stand beside this program."""
    kinds = IN_BUCKET if wanted.target.url else IN_DIRECTORY
    for name in wanted.only:
        if name not in kinds:
            raise usage(f"--only {name}: no such part", f"one of: {', '.join(kinds)}")
    made = [_part(name, wanted) for name in kinds if not wanted.only or name in wanted.only]
    useful = [part for part in made if len(part.study.factors[TOOL]) > 1]
    if not useful:
        reasons = "; ".join(dict.fromkeys(why for part in made for why in part.refused.values()))
        raise usage(
            f"no tool is here to hold this program against: {reasons or 'none is on PATH'}",
            f"install one of: {', '.join(tools.RUNNABLE)}",
        )
    return useful


def run(wanted: Wanted, out: Path, watcher: Watcher, command: tuple[str, ...]) -> list[Path]:
    """Run every part into a folder of its own below `out`; return the folders."""
    studies = parts(wanted)
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise usage(f"{out} is not empty", "choose another --out")
    folders = []
    for number, part in enumerate(studies, start=1):
        watcher.note(f"part {number} of {len(studies)}: {part.name}")
        folder = out / part.name
        request = Request(
            study=None,
            targets=[wanted.target],
            flags={},
            out=folder,
            command=command,
            made=part.study,
        )
        start(request, watcher)
        folders.append(folder)
    head = [{"name": part.name, "refused": part.refused} for part in studies]
    (out / HEAD).write_text(json.dumps(head, indent=1) + "\n", encoding="utf-8")
    return folders


def _part(name: str, wanted: Wanted) -> Part:
    kinds = IN_BUCKET if wanted.target.url else IN_DIRECTORY
    trial: Trial = {"workload": name, **COMMON, **kinds[name], **_storage(name, wanted.target)}
    trial |= _sized(trial, wanted.size)
    factors: dict[str, list[object]] = {}
    if trial["workload"] == "sequential":
        factors["operation"] = ["write", "read"]
    if name == "unsynced":
        factors["operation"] = ["write"]
    exclude: list[dict[str, object]] = []
    refused: dict[str, str] = {}
    able: list[object] = [ENGINE]
    for tool in wanted.tools:
        levels = factors.get("operation", [None])
        reasons = {level: _refusal(trial, tool, level, wanted.target) for level in levels}
        refusals = {level: why for level, why in reasons.items() if why}
        refused |= {f"{tool} {level}" if level else tool: why for level, why in refusals.items()}
        if len(refusals) < len(levels):
            able.append(tool)
            exclude += [{"operation": level, TOOL: tool} for level in refusals]
    study = Study(
        name=f"crosscheck-{name}",
        title=f"The same {name} work through savemark and through other tools",
        budget_s=600,
        repeats=wanted.repeats,
        order="balanced",
        defaults={},
        ceilings={},
        trial=trial,
        factors={**factors, TOOL: able},
        exclude=exclude,
        # As short for one tool as for the others.
        checks={"HC-13": {"block_below": 0}},
    )
    return Part(name, study, refused)


def _sized(trial: Trial, size: int) -> Trial:
    """Return the options that make a trial move `size` bytes; names have none."""
    if trial["workload"] in ("shared_file", "file_per_process"):
        share = size // trial["workers"] // trial["transfer_size"] * trial["transfer_size"]
        return {"block_size": max(share, trial["transfer_size"])}
    return {} if trial["workload"] == "metadata" else {"size": size}


def _refusal(trial: Trial, tool: str, operation: object, target: Target) -> str | None:
    """Return why a tool cannot express a trial."""
    asked = {**trial, TOOL: tool, **({"operation": operation} if operation else {})}
    try:
        resolve(asked, target.name)
    except SavemarkError as error:
        return error.message
    return None


def _storage(name: str, target: Target) -> Trial:
    if target.url:
        return {"storage": "object"}
    kind = (json.loads(engine.host(target.directory)).get("target") or {}).get("class")
    direct = kind != "memory"
    queued = name in ("queued", "random") and direct and _has_uring()
    return {"storage": "uring" if queued else "posix", "direct": direct}


def _has_uring() -> bool:
    return any(
        each["name"] == "io_uring" and each["available"] for each in json.loads(engine.features())
    )


def chosen(names: str | None) -> list[str]:
    """Return the tools asked for, or all that are here; one that is not is a usage error."""
    if names is None:
        return tools.installed()
    asked = [name.strip() for name in names.split(",")]
    tools.require(asked)
    return asked
