"""Where checkpoints are: one directory is one checkpoint, or holds several named by their time.

A *place* (`save --keep N`) is a directory of checkpoints named `20261120T213248.123456Z-savemark`:
the UTC time of the save, then a mark that says whose it is. The order of names is that of time.
Nothing is removed from a place but such directories, and nothing from those but our own files.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from savemark.errors import SavemarkError, refused, usage

NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z-savemark")
# What a filesystem makes by itself.
HARMLESS = ("lost+found",)
Json = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """A checkpoint, complete or damaged, or what is left of a save that was interrupted."""

    name: str
    path: Path
    contents: Json

    @property
    def status(self) -> str:
        """One of `complete`, `damaged`, `interrupted`."""
        checkpoint = self.contents["checkpoint"]
        if checkpoint is None:
            return "interrupted"
        return "damaged" if checkpoint["damage"] else "complete"


def directory(url: str) -> Path:
    """Return the directory that a path or URL names."""
    if url.startswith("file://"):
        url = url.removeprefix("file://")
    if "://" in url:
        raise usage(
            f"{url}: this version of savemark saves into directories only",
            "mount the storage and name the directory",
        )
    if not url:
        raise usage("the name of the checkpoint is empty", "name a directory")
    return Path(url)


def trial(path: Path, options: Mapping[str, object]) -> str:
    """Return the engine's trial for a checkpoint in `path`; a directory goes through io_uring."""
    given = {name: value for name, value in options.items() if value is not None}
    if given.get("storage") in ("null", "memory"):
        raise usage(f"storage: {given['storage']} keeps nothing", "use uring or posix")
    return json.dumps(
        {"storage": "uring", **given, "workload": "checkpoint", "target": os.fspath(path)}
    )


def looking(path: Path) -> str:
    """Return the trial for looking only: it writes nothing, so it works on read-only storage."""
    return trial(path, {"storage": "posix", "direct": False})


def entries(path: Path) -> list[Entry]:
    """Return the checkpoints in a directory: itself, or those of a place, oldest first."""
    import savemark._engine as engine

    if not path.is_dir():
        raise usage(f"there is no directory {path}", "check the path")
    own = json.loads(engine.contents(looking(path)))
    if own["checkpoint"] is not None or own["orphans"]:
        return [Entry(path.name, path, own)]
    return [
        Entry(found.name, found, json.loads(engine.contents(looking(found))))
        for found in _named(path)
    ]


def _named(path: Path) -> list[Path]:
    """Return the directories of a place that carry our names, oldest first."""
    found = [entry for entry in path.iterdir() if NAME.fullmatch(entry.name)]
    return sorted(entry for entry in found if entry.is_dir() and not entry.is_symlink())


def newest(path: Path) -> Path:
    """Return the checkpoint to restore: `path` itself, or the newest complete one of a place."""
    if not path.is_dir():
        raise usage(f"there is no checkpoint: {path} is not a directory", "check the path")
    if (path / "manifest.json").exists() or not _named(path):
        return path
    complete = [entry for entry in entries(path) if entry.status == "complete"]
    if not complete:
        raise SavemarkError(
            "corrupt", f"no checkpoint in {path} is complete", f"savemark list {path}"
        )
    return complete[-1].path


def check_single(path: Path) -> None:
    """Refuse to save one checkpoint where something else is."""
    if not path.exists():
        return
    if not path.is_dir():
        raise refused(f"{path} is not a directory", "name a new directory")
    if _named(path):
        raise refused(
            f"{path} holds several checkpoints", f"add --keep N, or name {path / 'checkpoint'}"
        )
    for found in path.iterdir():
        if found.is_dir() and found.name not in HARMLESS:
            raise _foreign(path, found.name)


def check_many(path: Path) -> None:
    """Refuse to keep checkpoints where something else is."""
    if path.exists() and not path.is_dir():
        raise refused(f"{path} is not a directory", "name a new directory")
    if (path / "manifest.json").exists():
        raise refused(
            f"{path} is itself a checkpoint; --keep needs a directory of its own",
            f"name another one, {path}-kept for example",
        )
    for found in path.iterdir() if path.exists() else ():
        if not NAME.fullmatch(found.name) and found.name not in HARMLESS:
            raise _foreign(path, found.name)


def _foreign(path: Path, name: str) -> SavemarkError:
    return refused(
        f"{path} is not a checkpoint: it holds {name}. Nothing was written",
        f"name a new or an empty directory, {path / 'checkpoint'} for example",
    )


@contextmanager
def new(path: Path) -> Iterator[Path]:
    """Make the directory of a checkpoint, durably; take it away again if it stays empty."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        _sync(folder.parent)
    try:
        yield path
    except BaseException:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()
        raise


@contextmanager
def another(path: Path) -> Iterator[Path]:
    """Make the directory of one more checkpoint of a place, under the lock of the place."""
    with new(path), locked(path):
        name = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ-savemark")
        with new(path / name) as folder:
            yield folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other saves and cleanings out of a place; the kernel lets go on `kill -9`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise refused(f"another save into {path} is under way", "wait for it") from None
        yield
    finally:
        os.close(descriptor)


def retain(path: Path, keep: int) -> list[str]:
    """Remove what is older than the `keep` newest complete checkpoints; return the names.

    Called under the lock, after a save: what is not complete is what killed saves left, and goes
    too. A damaged one stays: somebody may want to look at it.
    """
    found = entries(path)
    complete = [entry for entry in found if entry.status == "complete"]
    old = complete[: -max(keep, 1)]
    left = [entry for entry in found if entry.status == "interrupted"]
    return [entry.name for entry in old + left if _remove(entry)]


def _remove(entry: Entry) -> bool:
    """Remove a checkpoint's own files, and its directory if nothing else is in it."""
    import savemark._engine as engine

    engine.remove(looking(entry.path))
    with suppress(OSError):
        entry.path.rmdir()
    _sync(entry.path.parent)
    return not entry.path.exists()


def clean(path: Path, *, dry_run: bool) -> list[Json]:
    """Remove what interrupted saves and restores left (or only tell it): name and bytes of each."""
    import savemark._engine as engine

    swept = engine.sweep(os.fspath(path), dry_run)
    removed: list[Json] = [{"name": f"{found}/", "bytes": 0} for found in swept]
    if not path.is_dir():
        if not swept:
            raise usage(f"there is no directory {path}", "check the path")
        return removed
    if not _named(path):
        removed += json.loads(engine.clean(looking(path), dry_run))
        return removed
    with locked(path):
        for entry in entries(path):
            found = json.loads(engine.clean(looking(entry.path), dry_run))
            removed += [{**file, "name": f"{entry.name}/{file['name']}"} for file in found]
            if entry.status == "interrupted":
                removed.append({"name": f"{entry.name}/", "bytes": 0})
                if not dry_run:
                    _remove(entry)
    return removed


def _sync(folder: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
