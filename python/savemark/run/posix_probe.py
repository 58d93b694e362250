"""What a mounted bucket can do of what programs expect of a directory: tried out, and read back."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

WORKS, WRONG = "works", "wrong result"
OLD, NEW = b"a" * 8192, b"b" * 4096


def probe(folder: Path) -> dict[str, str]:
    """Try each call in a directory of its own below `folder`; return what came of it by name."""
    here = folder / "savemark-posix"
    here.mkdir()
    try:
        return {name: _outcome(call, here / f"{number}") for number, (name, call) in CALLS.items()}
    finally:
        shutil.rmtree(here, ignore_errors=True)


def _outcome(call: Callable[[Path], bool], path: Path) -> str:
    try:
        path.mkdir()
        return WORKS if call(path) else WRONG
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "error") + f" ({error.strerror})"


def _write(path: Path, data: bytes = OLD, flags: int = os.O_CREAT) -> Path:
    descriptor = os.open(path, os.O_WRONLY | flags, 0o644)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)  # some mounts say only here that they refuse
    return path


def _rename(path: Path) -> bool:
    _write(path / "old").rename(path / "new")
    return (path / "new").read_bytes() == OLD and not (path / "old").exists()


def _replace(path: Path) -> bool:
    _write(path / "new", NEW)
    _write(path / "old").rename(path / "new")
    return (path / "new").read_bytes() == OLD


def _rename_directory(path: Path) -> bool:
    (path / "old").mkdir()
    _write(path / "old" / "file")
    (path / "old").rename(path / "new")
    return (path / "new" / "file").read_bytes() == OLD


def _append(path: Path) -> bool:
    file = _write(path / "file")
    _write(file, NEW, os.O_APPEND)
    return file.read_bytes() == OLD + NEW


def _overwrite(path: Path) -> bool:
    file = _write(path / "file")
    descriptor = os.open(file, os.O_RDWR)
    try:
        os.pwrite(descriptor, NEW, 4096)
    finally:
        os.close(descriptor)
    return file.read_bytes() == OLD[:4096] + NEW


def _truncate(path: Path) -> bool:
    file = _write(path / "file")
    os.truncate(file, 4096)
    return file.read_bytes() == OLD[:4096]


def _fsync(path: Path) -> bool:
    file = path / "file"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, OLD)
        os.fsync(descriptor)
        os.write(descriptor, NEW)
    finally:
        os.close(descriptor)
    return file.read_bytes() == OLD + NEW


def _fsync_directory(path: Path) -> bool:
    _write(path / "file")
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return True


def _read_open(path: Path) -> bool:
    """Read what another descriptor has written and not closed yet."""
    descriptor = os.open(path / "file", os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, OLD)
        return (path / "file").read_bytes() == OLD
    finally:
        os.close(descriptor)


def _link(path: Path) -> bool:
    os.link(_write(path / "file"), path / "link")
    return (path / "link").read_bytes() == OLD


def _symlink(path: Path) -> bool:
    _write(path / "file")
    (path / "link").symlink_to("file")
    return (path / "link").read_bytes() == OLD


def _unlinked(path: Path) -> bool:
    """Read a file that is open and has been removed."""
    file = _write(path / "file")
    with file.open("rb", buffering=0) as opened:
        file.unlink()
        return opened.read() == OLD


CALLS: dict[int, tuple[str, Callable[[Path], bool]]] = dict(
    enumerate(
        [
            ("rename a file", _rename),
            ("rename over a file", _replace),
            ("rename a directory", _rename_directory),
            ("append", _append),
            ("write inside", _overwrite),
            ("truncate", _truncate),
            ("fsync, then write on", _fsync),
            ("fsync a directory", _fsync_directory),
            ("read while it is written", _read_open),
            ("read after it was removed", _unlinked),
            ("hard link", _link),
            ("symbolic link", _symlink),
        ]
    )
)
