"""The one folder that a run makes in a bucket, and its removal: as in a directory, without locks.

The objects below `savemark-<run id>/` are ours if the marker object there says so.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import savemark._engine as engine
from savemark.errors import refused
from savemark.run.workspace import MARKER, PREFIX, Owner, process_lives


@contextmanager
def open_workspace(url: str, run_id: str) -> Iterator[str]:
    """Make the run's folder below `url`, and remove it at the end in every case."""
    folder = f"{url}/{PREFIX}{run_id}"
    started = datetime.now().astimezone().isoformat(timespec="seconds")
    said = {"run_id": run_id, "pid": os.getpid(), "host": socket.gethostname()}
    engine.Bucket(folder).put(MARKER, json.dumps({**said, "started_at": started}))
    try:
        yield folder
    finally:
        remove(folder)


def owner(folder: str) -> Owner | None:
    """Return who made the folder, or None if it is not one of ours."""
    name = folder.rsplit("/", 1)[-1]
    if not name.startswith(PREFIX):
        return None
    try:
        said = json.loads(engine.Bucket(folder).get(MARKER) or "{}")
        pid, host, run_id = int(said["pid"]), str(said["host"]), str(said["run_id"])
    except (ValueError, KeyError, TypeError):
        return None
    ours = name == f"{PREFIX}{run_id}"
    return Owner(run_id, pid, host, process_lives(pid, host)) if ours else None


def remove(folder: str) -> None:
    """Remove a folder of ours, its unfinished uploads included; anything else is left alone."""
    if owner(folder) is not None:
        # The marker goes last: a removal that is cut short can be finished by the next run.
        engine.Bucket(folder).clear(MARKER)


def check(url: str) -> list[str]:
    """Refuse a place that holds anything but what killed runs of ours left; return those folders.

    A wrong bucket, wrong credentials and a server that is down show here, before a byte is written.
    """
    folders, objects = engine.Bucket(url).list()
    stale = []
    for name in folders:
        found = owner(f"{url}/{name}")
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
