"""The one folder that a run makes in a bucket, and its removal: as in a directory, without locks.

The objects below `savemark-<run id>/` are ours if the marker object there says so.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import savemark._engine as engine
from savemark.errors import refused
from savemark.run.workspace import MARKER, PREFIX, Owner, process_lives

# How long the server may take to answer: `retries`, and `timeout` of one request in seconds.
RequestLimits = Mapping[str, Any]


@contextmanager
def open_workspace(url: str, run_id: str, patience: RequestLimits) -> Iterator[str]:
    """Make the run's folder below `url`, and remove it at the end in every case."""
    folder = f"{url}/{PREFIX}{run_id}"
    started = datetime.now().astimezone().isoformat(timespec="seconds")
    said = {"run_id": run_id, "pid": os.getpid(), "host": socket.gethostname()}
    marker = json.dumps({**said, "started_at": started})
    engine.Bucket(folder, **patience).put(MARKER, marker)
    try:
        yield folder
    finally:
        remove(folder, patience)


def owner(folder: str, patience: RequestLimits) -> Owner | None:
    """Return who made the folder, or None if it is not one of ours."""
    name = folder.rsplit("/", 1)[-1]
    if not name.startswith(PREFIX):
        return None
    try:
        said = json.loads(engine.Bucket(folder, **patience).get(MARKER) or "{}")
        pid, host, run_id = int(said["pid"]), str(said["host"]), str(said["run_id"])
    except (ValueError, KeyError, TypeError):
        return None
    ours = name == f"{PREFIX}{run_id}"
    return Owner(run_id, pid, host, process_lives(pid, host)) if ours else None


def remove(folder: str, patience: RequestLimits) -> None:
    """Remove a folder of ours, its unfinished uploads included; anything else is left alone."""
    if owner(folder, patience) is not None:
        # The marker goes last: a removal that is cut short can be finished by the next run.
        engine.Bucket(folder, **patience).clear(MARKER)


def check(url: str, patience: RequestLimits) -> list[str]:
    """Refuse a place that holds anything but what killed runs of ours left; return those folders.

    A wrong bucket, wrong credentials and a server that is down show here, before a byte is written.
    """
    folders, objects = engine.Bucket(url, **patience).list()
    stale = []
    for name in folders:
        found = owner(f"{url}/{name}", patience)
        if found is not None and found.alive:
            raise refused(
                f"another savemark run (pid {found.pid} on {found.host}) is using {url}",
                f"wait until it has finished; if it was killed: aws s3 rm --recursive {url}/{name}",
            )
        if found is None:
            objects.append(f"{name}/")
        else:
            stale.append(f"{url}/{name}")
    if objects:
        raise refused(
            f"{url} is not empty (it holds {objects[0]})",
            f"name a prefix of its own: savemark run {url}/savemark",
        )
    return stale
