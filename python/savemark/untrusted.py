"""What comes from outside comes in here: opened without hanging, read and unpacked within limits.

Every limit stands in `limits`. A refusal is a usage error that names the file and the limit.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from savemark import limits
from savemark.errors import SavemarkError, usage

ZSTD = b"\x28\xb5\x2f\xfd"
STEP = 1 << 20  # bytes that are taken at a time
# What a factor may be called. It names columns, attributes of HTML and keys of a study.
NAME = re.compile(rf"\w[\w .:/+%#-]{{0,{limits.LONGEST_NAME - 1}}}")
# Characters that move the cursor, end a line or turn the direction of the text around.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
ANYTHING: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
T = TypeVar("T")


@contextmanager
def opened(path: Path, most: int) -> Iterator[BinaryIO]:
    """Open a regular file of at most `most` bytes; symbolic links are followed.

    A FIFO, a device or a socket is refused, not waited for. Raises OSError where it cannot be
    opened, and a usage error where it is nothing to be read or too large.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123  (there is a descriptor, and no path)
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise usage(f"{shown(path)} is a folder, and a file is wanted")
        if not stat.S_ISREG(status.st_mode):
            raise usage(
                f"{shown(path)} is no regular file but {_kind(status.st_mode)}",
                "copy what it holds into a file, and name that",
            )
        if status.st_size > most:
            raise too_large(path, f"{status.st_size} bytes", f"{most} bytes")
        yield file


def read(path: Path, most: int) -> bytes:
    """Return the content of a regular file of at most `most` bytes; errors as of `opened`."""
    with opened(path, most) as file:
        data = file.read(most + 1)  # files of /proc say that they have no bytes
    if len(data) > most:
        raise too_large(path, f"more than {most} bytes", f"{most} bytes")
    return data


def too_large(path: Path, has: str, most: str) -> SavemarkError:
    """Build the refusal of what is larger than its limit."""
    return usage(
        f"{shown(path)} has {has}; at most {most} are read",
        "it is no such file, or leave out of it what is not needed",
    )


def unpacked(path: Path, data: bytes, most: int) -> Iterator[bytes]:
    """Yield what zstd frames hold, part by part; a usage error as soon as it is more than `most`.

    Bytes are counted as they come, so that what unpacks to terabytes costs no memory.
    """
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd

    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: limits.LARGEST_WINDOW}
    rest, total = data, 0
    try:
        while rest.startswith(ZSTD):
            frame, part = zstd.ZstdDecompressor(options=options), rest
            while not frame.eof:
                if frame.needs_input and not part:
                    raise usage(f"{shown(path)}: its zstd is cut off", "copy the file again")
                out = frame.decompress(part, STEP)
                part, total = b"", total + len(out)
                if total > most:
                    raise too_large(path, f"more than {most} bytes when unpacked", f"{most} bytes")
                yield out
            rest = frame.unused_data
    except zstd.ZstdError as error:
        raise usage(f"{shown(path)}: it begins like zstd, and is none ({error})") from None


def parse_json(text: bytes, most: int = limits.MOST_VALUES) -> Any:
    """Return the value of a JSON text; ValueError where it is damaged, too deep or too much."""
    return decode(text, ANYTHING, most)


def decode(text: bytes, decoder: msgspec.json.Decoder[T], most: int = limits.MOST_VALUES) -> T:
    """Return a JSON text as the decoder's type; ValueError says what is damaged, and where.

    NaN and Infinity, which Python writes, are read too.
    """
    if text.count(b",") + text.count(b"[") + text.count(b"{") > most:
        raise ValueError(f"it has more than {most} values")
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise ValueError(mismatch(error)) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        if b"NaN" not in text and b"Infinity" not in text:
            why = str(error)
            raise ValueError(f"it is no JSON: {why[:1].lower()}{why[1:]}") from None
    try:
        value = json.loads(text)
        if b"\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # half a character cannot be written
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return typed(value, decoder.type)


def typed(found: Any, kind: type[T]) -> T:
    """Return a JSON value as the type that it should have; ValueError says where it differs."""
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise ValueError(mismatch(error)) from None


def mismatch(error: msgspec.ValidationError) -> str:
    """Return `record.phases[0].elapsed_ns: expected `int`, got `str``."""
    what, _, path = clean(str(error)).rpartition(" - at `$")
    where = path.removesuffix("`").removeprefix(".")
    text = what or path
    return f"{where}: {text[:1].lower()}{text[1:]}" if what and where else text


def name(text: str, where: str) -> str:
    """Return the name of a factor as it is; a usage error where it could be no name."""
    if not NAME.fullmatch(text):
        raise usage(
            f"{where}: a factor is called `{clean(text)[: limits.LONGEST_NAME]}`",
            f"names have letters, digits, spaces and _.:/+%#-, at most {limits.LONGEST_NAME}",
        )
    return text


def words(text: str, where: str, most: int = limits.LONGEST_TEXT) -> str:
    """Return a label, a level or a message without control characters; too long is refused."""
    if len(text) > most:
        raise usage(
            f"{where}: a text of {len(text)} characters (`{clean(text[:40])}…`)",
            f"at most {most} are read there",
        )
    return clean(text)


def level(factor: str, value: Any, where: str) -> Any:
    """Return the level of a factor: a text, a number, true, false or nothing."""
    if isinstance(value, str):
        return words(value, f"{where}: {factor}")
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int) and abs(value) < 1 << 63:
        return value
    kind = "a number that is too large" if isinstance(value, int) else f"a {type(value).__name__}"
    raise usage(f"{where}: the level of {factor} is {kind}", "a level is a text or a number")


def clean(text: str) -> str:
    """Return a text whose control characters, and bytes that are not UTF-8, are spelt out."""
    return CONTROL.sub(_spelt, text)


def shown(path: Path) -> str:
    """Return a path that can be printed and written down, whatever its name is."""
    return clean(str(path))


def _spelt(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"  # a byte of a name that is not UTF-8
    return found[0].encode("unicode_escape", "surrogatepass").decode("ascii")


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "something else")
