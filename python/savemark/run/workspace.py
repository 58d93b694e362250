"""The one folder that a run makes in a target, and its removal.

The folder `savemark-<run id>` holds a marker file. Nothing is ever removed from a target but a
folder whose marker says that we made it, and that no living run holds; and nothing that is mounted
in it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from savemark.run.removal import remove_below

MARKER = ".savemark"
PREFIX = "savemark-"
# How often, and after what pause, a removal is tried again that others came in between.
TRIES, PAUSE_S = 20, 0.05
# A marker is a line; what is longer is none.
MARKER_BYTES = 4096
# What flock says where the filesystem has no locks (Lustre without -o flock, some FUSE).
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@dataclass(frozen=True)
class Owner:
    """Who made a folder of ours, and whether that process still lives."""

    run_id: str
    pid: int
    host: str
    alive: bool


@contextmanager
def open_workspace(target: Path, run_id: str) -> Iterator[Path]:
    """Make the run's folder in `target`, hold its lock, and remove it at the end in every case."""
    path = target / f"{PREFIX}{run_id}"
    descriptor = make(path, run_id)
    try:
        yield path
    finally:
        remove(path)
        os.close(descriptor)


def make(path: Path, run_id: str, mode: int = 0o777) -> int:
    """Make the folder with its marker; return the descriptor that holds the marker's lock.

    The marker says nothing before its lock is held: whoever reads it sees that its owner lives.
    """
    started = datetime.now().astimezone().isoformat(timespec="seconds")
    said = {"run_id": run_id, "pid": os.getpid(), "host": socket.gethostname()}
    path.mkdir(mode)
    marker = path / MARKER
    try:
        descriptor = os.open(marker, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        _try_lock(descriptor)
        os.write(descriptor, json.dumps({**said, "started_at": started}).encode())
    except OSError:
        marker.unlink(missing_ok=True)
        path.rmdir()
        raise
    return descriptor


def owner(path: Path) -> Owner | None:
    """Return who made `path`, or None if it is not a folder of ours."""
    with _marker(path) as descriptor:
        return None if descriptor is None else _owner(path, descriptor)


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Hold the lock of a folder of ours that nobody holds; False if it is not such a one."""
    with _marker(path) as descriptor:
        found = None if descriptor is None else _owner(path, descriptor)
        yield found is not None and not found.alive


@contextmanager
def _marker(path: Path) -> Iterator[int | None]:
    """Open the marker of a folder, if it has one that is a file: opening a FIFO would wait."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    if not path.name.startswith(PREFIX) or path.is_symlink() or not path.is_dir():
        yield None
        return
    try:
        descriptor = os.open(path / MARKER, flags)
    except OSError:
        yield None
        return
    try:
        yield descriptor if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    finally:
        os.close(descriptor)


def _owner(path: Path, descriptor: int) -> Owner | None:
    try:
        said = json.loads(os.pread(descriptor, MARKER_BYTES, 0))
        run_id, pid, host = said["run_id"], int(said["pid"]), str(said["host"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    if path.name != f"{PREFIX}{run_id}":
        return None
    locked = _try_lock(descriptor)
    alive = process_lives(pid, host) if locked is None else not locked
    return Owner(run_id, pid, host, alive)


def stale(target: Path, kind: str = "") -> list[Path]:
    """Return the folders in `target` that killed runs of ours left; run ids begin with `kind`."""
    owners = ((path, owner(path)) for path in sorted(target.glob(f"{PREFIX}{kind}*")))
    return [path for path, found in owners if found is not None and not found.alive]


def remove(path: Path) -> None:
    """Remove a folder of ours with all it holds; anything else is left alone.

    Raises `OSError` (EBUSY) if something is mounted in it.
    Other ranks, which end a moment later, may still be making and removing files in it.
    """
    if owner(path) is None:
        return
    for left in reversed(range(TRIES)):
        try:
            remove_below(path, keep=MARKER)
            # Goes last: a removal that is cut short can be finished by the next run.
            (path / MARKER).unlink(missing_ok=True)
            path.rmdir()
            return
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY) or not left:
                raise
            time.sleep(PAUSE_S)


def _try_lock(descriptor: int) -> bool | None:
    """Take the lock: True if it was free, False if it is held, None where there are no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in NO_LOCKS:
            return None
        raise
    return True


def process_lives(pid: int, host: str) -> bool:
    """Judge by the process id; a run on another host counts as alive."""
    return host != socket.gethostname() or Path(f"/proc/{pid}").exists()
