"""A result file, as bytes that never change and as text that is read leniently."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TypeVar

from savemark import limits, untrusted
from savemark.errors import usage

T = TypeVar("T")
HEAD = 4096  # characters of the beginning, by which some formats know their files


@dataclass(frozen=True)
class Source:
    """A file to be read: where it is, and its bytes."""

    path: Path
    data: bytes

    @classmethod
    def of(cls, path: Path) -> Source:
        """Read a file; a usage error where that cannot be done."""
        try:
            return cls(path, untrusted.read(path, limits.LARGEST_FILE))
        except OSError as error:
            why = "name result files or folders: savemark import PATH…"
            raise usage(f"{untrusted.shown(path)}: {error.strerror}", why) from None

    @cached_property
    def text(self) -> str:
        """The content; unpacked if it is zstd, and with other than UTF-8 replaced."""
        data = self.data
        if data.startswith(untrusted.ZSTD):
            data = b"".join(untrusted.unpacked(self.path, data, limits.LARGEST_TEXT))
        elif len(data) > limits.LARGEST_TEXT:
            raise untrusted.too_large(
                self.path, f"{len(data)} bytes", f"{limits.LARGEST_TEXT} bytes"
            )
        # utf-8-sig: spreadsheets put a mark before the name of the first column.
        text = data.decode("utf-8-sig", errors="replace")
        self.limit(text.count("\n") + text.count("\r"), limits.MOST_LINES, "lines")
        return text

    @cached_property
    def head(self) -> str:
        """The first characters of the content, of a file of any size."""
        return next(self._pieces(), "")[:HEAD]

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the text, by any of the usual line ends."""
        return self.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")

    def stream(self) -> Iterator[str]:
        """Yield the lines one by one, of a file that may be too large for `text`."""
        rest, count = "", 0
        for piece in self._pieces():
            *lines, rest = f"{rest}{piece}".split("\n")
            count += len(lines)
            self.limit(count, limits.MOST_STREAMED, "lines")
            self.limit(len(rest), limits.LARGEST_LINE, "characters in a line")
            yield from (line.removesuffix("\r") for line in lines)
        yield rest.removesuffix("\r")

    def limit(self, count: int, most: int, what: str) -> None:
        """Refuse a file that has more of something than anybody needs."""
        if count > most:
            raise untrusted.too_large(self.path, f"{count} {what}", f"{most} {what}")

    def few(self, found: Iterable[T]) -> list[T]:
        """Return what was read, unless it is more trials than a run holds."""
        few = list(islice(found, limits.MOST_IMPORTED + 1))
        if len(few) > limits.MOST_IMPORTED:
            most = f"{limits.MOST_IMPORTED} trials"
            raise untrusted.too_large(self.path, f"more than {most}", most)
        return few

    def _pieces(self) -> Iterator[str]:
        """Yield the text in parts of about a megabyte."""
        if self.data.startswith(untrusted.ZSTD):
            parts = untrusted.unpacked(self.path, self.data, limits.LARGEST_STREAM)
        else:
            size, view = untrusted.STEP, memoryview(self.data)
            parts = (bytes(view[at : at + size]) for at in range(0, len(view), size))
        decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        yield from (decoder.decode(part) for part in parts)
        yield decoder.decode(b"", final=True)

    @cached_property
    def sha256(self) -> str:
        """The digest by which the original can always be recognised."""
        return hashlib.sha256(self.data).hexdigest()
