"""A folder of its own for a trial of another tool, below the run's folder in the target."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import savemark._engine as engine
from savemark.run.bucket import RequestLimits
from savemark.run.removal import remove_tree


@contextmanager
def below(target: str, patience: RequestLimits) -> Iterator[str]:
    """Make the folder, and remove it with all that the tool has left there."""
    if "://" in target:
        url = f"{target}/tool-{uuid4().hex[:8]}"
        try:
            yield url
        finally:
            engine.Bucket(url, **patience).clear("")
    else:
        made = tempfile.mkdtemp(prefix="tool-", dir=target)
        try:
            yield made
        finally:
            remove_tree(Path(made))
