"""GPUs as the options of a trial name them: `state: gpu:0-7`, `gpus: 0,1`."""

from __future__ import annotations

import re

# `state: gpu`, `gpu:0`, `gpu:0-7`: generated in the memory of GPUs, not a directory.
ON_GPUS = re.compile(r"gpu(:.*)?")


def gpu_count(numbers: str) -> int:
    """Count the GPUs of a list such as `0`, `0,1`, `0+1` or `0-7`, as the engine reads it."""
    parts = [part.partition("-") for part in re.split("[,+]", numbers)]
    return sum(int(last) - int(first) + 1 if dash else 1 for first, dash, last in parts)


def is_on_gpus(state: object) -> bool:
    """Tell whether the option `state` of a trial means the memory of GPUs."""
    return isinstance(state, str) and ON_GPUS.fullmatch(state) is not None
