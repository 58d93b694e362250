"""What an earlier run of the same place measured with, so that a rerun does the same work."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from savemark.errors import SavemarkError
from savemark.records.stored import HEAD, read_head
from savemark.run.target import Target
from savemark.study.model import Study

# So many of the newest run folders are looked at.
MOST = 50


def size_bytes(runs: Path, study: Study, targets: Sequence[Target]) -> int | None:
    """Return the size of the newest race of this study on these targets, on this machine.

    `runs` is the folder that the new run folder will be in: earlier ones lie beside it.
    """
    places = [target.name for target in targets]
    for folder in _newest(runs):
        try:
            head = read_head(folder)
        except SavemarkError:
            continue
        if _is_alike(head, study, places):
            return int(head["race"]["size_bytes"])
    return None


def _newest(runs: Path) -> list[Path]:
    if not runs.is_dir():
        return []
    heads = [path for path in runs.glob(f"*/{HEAD}") if path.is_file()]
    heads.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    return [path.parent for path in heads[:MOST]]


def _is_alike(head: dict[str, Any], study: Study, places: Sequence[str]) -> bool:
    known = head.get("study") or {}
    trial = {**(known.get("defaults") or {}), **(known.get("trial") or {})}
    own = {**study.defaults, **study.trial}
    return (
        bool((head.get("race") or {}).get("size_bytes"))
        and known.get("name") == study.name
        and [each.get("target") for each in head.get("targets") or []] == list(places)
        and (head.get("host") or {}).get("hostname") == platform.node()
        and all(trial.get(name) == level for name, level in own.items() if name != "size")
    )
