"""What another program prints, and no more of it than is looked at: it may print for ever."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

# Of its output the beginning, of its errors the end, where the reason stands.
MOST_BYTES = 1 << 20
PIECE = 1 << 16


def run(
    words: Sequence[str],
    *,
    limit_s: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; keep the first MiB of its output and the last of its errors.

    Raises `OSError` if it cannot be started and `TimeoutExpired` after `limit_s` seconds. Without
    one it takes what it takes. It is killed if we are interrupted.
    """
    with subprocess.Popen(
        list(words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as process:
        try:
            out, err = _read(process, limit_s)
        except BaseException:
            process.kill()
            raise
    texts = (each.decode(errors="replace") for each in (out, err))
    return subprocess.CompletedProcess(list(words), process.returncode, *texts)


def _read(process: subprocess.Popen[bytes], limit_s: float | None) -> tuple[bytes, bytes]:
    assert process.stdout
    assert process.stderr
    out, err = bytearray(), bytearray()
    end = None if limit_s is None else time.monotonic() + limit_s
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ, out)
        ready.register(process.stderr, selectors.EVENT_READ, err)
        while ready.get_map():
            left = None if end is None else max(0.0, end - time.monotonic())
            events = ready.select(left)
            if not events or left == 0:
                raise subprocess.TimeoutExpired(process.args, limit_s or 0)
            for key, _ in events:
                piece = os.read(key.fd, PIECE)
                if not piece:
                    ready.unregister(key.fileobj)
                elif key.data is err:
                    err += piece
                    del err[:-MOST_BYTES]
                elif len(out) < MOST_BYTES:
                    out += piece
    process.wait(None if end is None else max(0.0, end - time.monotonic()))
    return bytes(out), bytes(err)


def end_of(path: Path, most: int = MOST_BYTES) -> str:
    """Return the end of what a program has printed into a file; empty if there is none."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - most))
        return file.read(most).decode(errors="replace")
