"""Checkpoints in directories: locked while they are written to, durable with their names."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar, Self

from savemark.checkpoint.place import Json, Place
from savemark.errors import refused, usage

# What a filesystem makes by itself.
HARMLESS = ("lost+found",)


class Folder(Place):
    """A directory, which may not exist yet."""

    storage = "uring"
    instead: ClassVar[Mapping[str, str]] = {
        "null": "it keeps nothing; use uring or posix",
        "memory": "it keeps nothing; use uring or posix",
        "object": "for a bucket, give its URL: s3://bucket/prefix",
    }

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __str__(self) -> str:
        """Return the path."""
        return str(self.path)

    @property
    def name(self) -> str:
        """The name of the directory."""
        return self.path.name

    def below(self, name: str) -> Self:
        """Return the directory `name` in this one."""
        return type(self)(self.path / name)

    def looking(self) -> str:
        """Return the trial for looking only: it writes nothing, on read-only storage too."""
        return self.trial({"storage": "posix", "direct": False})

    def check_exists(self) -> None:
        """Refuse a path that is no directory."""
        if not self.path.is_dir():
            raise usage(f"there is no checkpoint: there is no directory {self}", "check the path")

    def names(self) -> tuple[list[str], list[str]]:
        """Return the names of directories, and of all else, in it."""
        if not self.path.exists():
            return [], []
        if not self.path.is_dir():
            raise refused(f"{self} is not a directory", "name a new directory")
        found = [entry for entry in self.path.iterdir() if entry.name not in HARMLESS]
        folders = [e.name for e in found if e.is_dir() and not e.is_symlink()]
        return folders, [e.name for e in found if e.name not in folders]

    @contextmanager
    def new(self) -> Iterator[None]:
        """Make the directory of a checkpoint, durably; take it away again if it stays empty."""
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(_private(folder.parent), exist_ok=True)
            _sync(folder.parent)
        try:
            yield
        except BaseException:
            for folder in missing:
                with suppress(OSError):
                    folder.rmdir()
            raise

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other saves and cleanings out; the kernel lets go on `kill -9`."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise refused(f"another save into {self} is under way", "wait for it") from None
            yield
        finally:
            os.close(descriptor)

    def remove(self) -> bool:
        """Remove a checkpoint's own files, and its directory if nothing else is in it."""
        import savemark._engine as engine

        engine.remove(self.looking())
        with suppress(OSError):
            self.path.rmdir()
        _sync(self.path.parent)
        return not self.path.exists()

    def clear_old(self) -> bool:
        """Remove what an interrupted save left: the lock of the place says that none is at work."""
        return self.remove()

    def clean(self, *, older_than_s: float, dry_run: bool) -> list[Json]:  # noqa: ARG002
        """Remove what interrupted saves into it left, and interrupted restores beside it.

        Locks tell what is under way, so `older_than_s` does not matter.
        """
        import savemark._engine as engine

        swept = engine.sweep(str(self), dry_run)
        removed = [_gone(f"{found}/") for found in swept]
        if not self.path.is_dir():
            if not swept:
                self.check_exists()
            return removed
        removed += self._clean_single(dry_run)
        several = self.several()
        if not several:
            return removed
        with self.locked():
            for entry in self.entries():
                assert isinstance(entry.place, Folder)
                found = entry.place._clean_single(dry_run)
                removed += [{**file, "name": f"{entry.name}/{file['name']}"} for file in found]
                if entry.status == "interrupted":
                    removed.append(_gone(f"{entry.name}/"))
                    if not dry_run:
                        entry.place.remove()
        return removed

    def _clean_single(self, dry_run: bool) -> list[Json]:
        import savemark._engine as engine

        found = json.loads(engine.clean(self.looking(), dry_run))
        return [{**file, "abandoned": True} for file in found]


def _gone(name: str) -> Json:
    return {"name": name, "bytes": 0, "abandoned": True}


def _private(parent: Path) -> int:
    """Return the mode of a new directory: its owner's, and its group's where the parent is shared.

    The set-group-ID bit is how a directory says that what is in it belongs to the group.
    """
    mode = parent.stat().st_mode
    return 0o700 | (mode & 0o070 if mode & stat.S_ISGID else 0)


def _sync(folder: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
