"""Files that are whole or not there, written into folders that somebody else may have filled."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from savemark.errors import refused


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of `path` when the block ends, and is gone if it fails.

    A link at `path` is replaced, not followed; no other file is touched.
    """
    part = path.with_name(f".savemark-{secrets.token_hex(8)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(part, flags, 0o666)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123  (there is a descriptor, and no path)
            yield file
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a whole text file, as `replacing` does."""
    with replacing(path) as file:
        file.write(text.encode())


def folder(path: Path) -> Path:
    """Return a folder to write into, made where it is not there; a link to one is refused."""
    if path.is_symlink():
        raise refused(
            f"{path} is a link, and what is written there would land elsewhere",
            "remove the link, or copy the run folder",
        )
    path.mkdir(parents=True, exist_ok=True)
    return path


def safe(label: str) -> str:
    """A label as part of a file name."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in label).strip(".") or "target"
