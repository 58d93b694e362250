"""A launch file for one study: its template, filled with the study's own arguments."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from savemark.errors import did_you_mean, usage

TEMPLATES = Path(__file__).parent
# What a launcher's file is called.
FILES = {"slurm": "slurm.sh", "mpijob": "mpijob.yaml", "skypilot": "skypilot.yaml"}
NODES, RANKS_PER_NODE = 4, 8  # where nothing else is said
# The forecast does not know the storage, so it gets twice the time, and a while to start.
MARGIN, STARTING_S = 2.0, 10 * 60
QUARTER_S = 15 * 60
# Options that are not the study's: where this file and the run go, and with a value or without.
OURS = {"--emit": True, "--out": True, "--dry-run": False, "--json": False}


@dataclass(frozen=True)
class Launch:
    """A launcher, and how many ranks it starts on how many nodes."""

    kind: str
    nodes: int = NODES
    per_node: int = RANKS_PER_NODE


def parse(text: str) -> Launch:
    """Read `slurm`, or with nodes and ranks per node `slurm:4x8`."""
    kind, colon, shape = text.partition(":")
    if kind not in FILES:
        raise usage(f"--emit {text}: `{kind}` is not known", did_you_mean(kind, list(FILES)))
    if not colon:
        return Launch(kind)
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", shape)
    if match is None:
        hint = f"--emit {kind}:4x8 starts 8 ranks on each of 4 nodes"
        raise usage(f"--emit {text}: `{shape}` is not NODESxRANKS", hint)
    return Launch(kind, int(match[1]), int(match[2]))


def emit(
    launch: Launch, study: str, command: Sequence[str], targets: list[str], forecast_s: float
) -> str:
    """Return the file: `command` is the line that asked for it, `forecast_s` what a run takes."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
    )
    for text in (study, *command, *targets):
        if not text.isprintable():
            raise usage(
                f"--emit: {text!r} holds a character that no launch file can",
                "name studies, labels and targets without line ends and control characters",
            )
    words = arguments(command)
    limit_s = limit(forecast_s)
    environment.filters["quoted"] = shlex.quote
    return environment.get_template(f"{FILES[launch.kind]}.j2").render(
        study=study,
        name=f"savemark-{re.sub(r'[^a-z0-9]+', '-', study.lower()).strip('-') or 'run'}",
        asked=shlex.join(command),
        words=shlex.join(words),
        nodes=launch.nodes,
        per_node=launch.per_node,
        ranks=launch.nodes * launch.per_node,
        limit=f"{limit_s // 3600:02}:{limit_s % 3600 // 60:02}:00",
        directories=[target for target in targets if "://" not in target],
    )


def arguments(command: Sequence[str]) -> list[str]:
    """Return the study, the targets and the options of `savemark run`, as they were typed."""
    words, kept = list(command), []
    rest = iter(words[words.index("run") + 1 :] if "run" in words else words)
    for word in rest:
        name, equals, _ = word.partition("=")
        if name not in OURS:
            kept.append(word)
        elif OURS[name] and not equals:
            next(rest, None)
    return kept


def limit(forecast_s: float) -> int:
    """Return the time to ask for, in seconds: whole quarters of an hour."""
    return math.ceil((MARGIN * forecast_s + STARTING_S) / QUARTER_S) * QUARTER_S
