"""Directories: locked while they are written to, durable with their names."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Self

from savemark.errors import refused, usage
from savemark.places.place import MARKER, PREFIX, Json, Owner, Place, marked, marker
from savemark.places.removal import remove_below, remove_tree

# What a filesystem makes by itself.
HARMLESS = ("lost+found",)
# How often, and after what pause, a removal is tried again that others came in between.
TRIES, PAUSE_S = 20, 0.05
# A marker is a line; what is longer is none.
MARKER_BYTES = 4096
# What flock says where the filesystem has no locks (Lustre without -o flock, some FUSE).
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class Directory(Place):
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

    def names(self) -> tuple[list[str], list[str]]:
        """Return the names of directories, and of all else, in it."""
        if not self.path.exists():
            return [], []
        if not self.path.is_dir():
            raise refused(f"{self} is not a directory", "name a new directory")
        entries = [entry for entry in self.path.iterdir() if entry.name not in HARMLESS]
        folders = [e.name for e in entries if e.is_dir() and not e.is_symlink()]
        return folders, [e.name for e in entries if e.name not in folders]

    def check_usable(self) -> None:
        """Refuse a place that must not or cannot be measured, before anything is written."""
        path = self.path
        try:
            kind = path.stat().st_mode
        except FileNotFoundError:
            raise usage(f"{path} does not exist", f"mkdir -p {path}") from None
        except OSError as error:
            raise refused(f"{path} cannot be examined: {error.strerror}") from None
        if stat.S_ISBLK(kind) or stat.S_ISCHR(kind):
            raise refused(
                f"{path} is a device; savemark never writes to a raw device",
                "mount a filesystem from it and name a directory there",
            )
        if not stat.S_ISDIR(kind):
            raise refused(f"{path} is not a directory", f"name the one it is in: {path.parent}")
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            raise refused(f"{path} is on a read-only filesystem", "remount it, or choose another")
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            hint = "check its owner and mode, or choose another"
            raise refused(f"you may not write in {path}", hint)

    @contextmanager
    def workspace(self, run_id: str) -> Iterator[Self]:
        """Make the run's folder, hold its lock, and remove it at the end in every case."""
        made = self.below(f"{PREFIX}{run_id}")
        lock = made.make()
        try:
            yield made
        finally:
            made.remove_owned()
            os.close(lock)

    @contextmanager
    def scratch(self) -> Iterator[str]:
        """Make a folder for another tool, and remove it with all that the tool has left there."""
        made = tempfile.mkdtemp(prefix="tool-", dir=self.path)
        try:
            yield made
        finally:
            remove_tree(Path(made))

    def make(self, mode: int = 0o777) -> int:
        """Make this folder of a run with its marker; return the descriptor that holds the lock.

        The marker says nothing before its lock is held: whoever reads it sees that its owner lives.
        """
        self.path.mkdir(mode)
        file = self.path / MARKER
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            _try_lock(descriptor)
            os.write(descriptor, marker(self.name.removeprefix(PREFIX)).encode())
        except OSError:
            file.unlink(missing_ok=True)
            self.path.rmdir()
            raise
        return descriptor

    def owner(self) -> Owner | None:
        """Return who made this folder; None if it is not a run's."""
        with self._held() as owner:
            return owner

    @contextmanager
    def claimed(self) -> Iterator[bool]:
        """Hold the lock of a run's folder that nobody holds; False if it is not such a one."""
        with self._held() as owner:
            yield owner is not None and not owner.alive

    @contextmanager
    def _held(self) -> Iterator[Owner | None]:
        """Yield the owner; the lock of one that does not live is held for that time."""
        with self._marker() as descriptor:
            text = os.pread(descriptor, MARKER_BYTES, 0) if descriptor is not None else b""
            owner = marked(self.name, text)
            if owner is not None and descriptor is not None:
                free = _try_lock(descriptor)
                owner = owner if free is None else replace(owner, alive=not free)
            yield owner

    @contextmanager
    def _marker(self) -> Iterator[int | None]:
        """Open the marker, if there is one that is a file: opening a FIFO would wait."""
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        if not self.name.startswith(PREFIX) or self.path.is_symlink() or not self.path.is_dir():
            yield None
            return
        try:
            descriptor = os.open(self.path / MARKER, flags)
        except OSError:
            yield None
            return
        try:
            yield descriptor if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
        finally:
            os.close(descriptor)

    def stale(self, kind: str = "") -> list[Self]:
        """Return the folders in it that killed runs left; their run ids begin with `kind`."""
        folders = [type(self)(path) for path in sorted(self.path.glob(f"{PREFIX}{kind}*"))]
        owners = [(folder, folder.owner()) for folder in folders]
        return [folder for folder, owner in owners if owner is not None and not owner.alive]

    def remove_owned(self) -> None:
        """Remove this folder with all it holds if it is a run's; anything else is left alone.

        Raises `OSError` (EBUSY) if something is mounted in it.
        Other ranks, which end a moment later, may still be making and removing files in it.
        """
        if self.owner() is None:
            return
        for left in reversed(range(TRIES)):
            try:
                remove_below(self.path, keep=MARKER)
                # Goes last: a removal that is cut short can be finished by the next run.
                (self.path / MARKER).unlink(missing_ok=True)
                self.path.rmdir()
                return
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENOTEMPTY) or not left:
                    raise
                time.sleep(PAUSE_S)

    def _hints(self, folder: str) -> tuple[str, str]:  # noqa: ARG002
        own = f"mkdir {self}/savemark && savemark run {self}/savemark"
        return "wait until it has finished, or choose another directory", own

    def check_exists(self) -> None:
        """Refuse a path that is no directory."""
        if not self.path.is_dir():
            raise usage(f"there is no checkpoint: there is no directory {self}", "check the path")

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
        """Remove what interrupted saves left: locks tell what is under way, not its age."""
        import savemark._engine as engine

        removed = json.loads(engine.clean(self.looking(), dry_run))
        return [{**file, "abandoned": True} for file in removed]

    def sweep(self, dry_run: bool) -> list[Path]:
        """Remove what interrupted restores into this directory left beside it."""
        import savemark._engine as engine

        return engine.sweep(str(self), dry_run)

    def looking(self) -> str:
        """Return the trial for looking only: it writes nothing, on read-only storage too."""
        return self.trial({"storage": "posix", "direct": False})


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
