"""A result file, as bytes that never change and as text that is read leniently."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from savemark.errors import usage

MOST_BYTES = 64 << 20  # a result file is text for people; anything larger is something else
MOST_TEXT = 512 << 20  # and what it unpacks to
ZSTD = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Source:
    """A file to be read: where it is, and its bytes."""

    path: Path
    data: bytes

    @classmethod
    def of(cls, path: Path) -> Source:
        """Read a file; a usage error where that cannot be done."""
        try:
            size = path.stat().st_size
            if size > MOST_BYTES:
                raise usage(f"{path} has {size} bytes; a result file has at most {MOST_BYTES}")
            return cls(path, path.read_bytes())
        except OSError as error:
            why = "name result files or folders: savemark import PATH…"
            raise usage(f"{path}: {error.strerror}", why) from None

    @cached_property
    def text(self) -> str:
        """The content; unpacked if it is zstd, and with other than UTF-8 replaced."""
        data = _unpacked(self) if self.data.startswith(ZSTD) else self.data
        # utf-8-sig: spreadsheets put a mark before the name of the first column.
        return data.decode("utf-8-sig", errors="replace")

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the text, by any of the usual line ends."""
        return self.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")

    @cached_property
    def sha256(self) -> str:
        """The digest by which the original can always be recognised."""
        return hashlib.sha256(self.data).hexdigest()


def _unpacked(source: Source) -> bytes:
    """Unpack zstd with the copy of it that polars brings: Python has its own only from 3.14 on."""
    import polars as pl

    try:
        lines = pl.read_csv(
            io.BytesIO(source.data),
            has_header=False,
            separator="\x01",  # so that a line is one column
            quote_char=None,
            infer_schema=False,
            encoding="utf8-lossy",
        ).to_series()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise usage(f"{source.path}: it begins like zstd, and is none ({error})") from None
    if (lines.str.len_bytes().sum() or 0) > MOST_TEXT:
        raise usage(f"{source.path} unpacks to more than {MOST_TEXT} bytes; no result file does")
    return "\n".join(line or "" for line in lines).encode()
