"""Removing what we made, and nothing that is mounted in it.

It imports nothing of savemark: the process that holds the mounts uses it, too.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

# How the kernel writes a space, a tab, a newline and a backslash in its lists of mounts.
ESCAPES = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


def mounted_below(path: Path) -> list[Path]:
    """Return the mountpoints at or below a path, the innermost first.

    From the kernel's list: a dead FUSE mount answers no other question, and a directory that is
    bound to another place of its own filesystem has no device number of its own.
    """
    top = path.parent.resolve() / path.name
    points = []
    for line in os.fsdecode(Path("/proc/self/mountinfo").read_bytes()).splitlines():
        name = line.split(" ")[4]
        for escape, meant in ESCAPES.items():
            name = name.replace(escape, meant)
        if Path(name).is_relative_to(top):
            points.append(Path(name))
    return sorted(points, key=lambda point: len(point.parts), reverse=True)


def is_mounted(point: Path) -> bool:
    """Whether something is mounted at just this place."""
    return point.parent.resolve() / point.name in mounted_below(point)


def remove_below(folder: Path, keep: str | None = None) -> None:
    """Remove all that a folder holds, but for the entry `keep`; no link is followed.

    Raises `OSError` (EBUSY) before anything is removed if something is mounted at it or below it,
    and where another filesystem is met that was mounted since: what is in there is not ours.
    """
    if inside := mounted_below(folder):
        raise _mounted(inside[0])
    descriptor = _open(folder)
    try:
        _empty(descriptor, folder, os.fstat(descriptor).st_dev, keep)
    finally:
        os.close(descriptor)


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that it holds; raises as `remove_below` does."""
    remove_below(folder)
    folder.rmdir()


def _open(name: Path | str, parent: int | None = None) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, dir_fd=parent)


def _empty(descriptor: int, path: Path, device: int, keep: str | None = None) -> None:
    with os.scandir(descriptor) as listed:
        entries = [entry for entry in listed if entry.name != keep]
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.name, dir_fd=descriptor)
            continue
        inner = _open(entry.name, descriptor)
        try:
            if os.fstat(inner).st_dev != device:
                raise _mounted(path / entry.name)
            _empty(inner, path / entry.name, device)
        finally:
            os.close(inner)
        os.rmdir(entry.name, dir_fd=descriptor)


def _mounted(point: Path) -> OSError:
    return OSError(
        errno.EBUSY, "something is mounted there: unmount it, then try again", str(point)
    )
