"""Ctrl-C, SIGTERM and SIGHUP stop a run in order; a second Ctrl-C stops it at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_in_order() -> Iterator[None]:
    """Turn the first signal into KeyboardInterrupt; the next one has the system's own effect."""
    before = {number: signal.signal(number, _stop) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(_number: int, _frame: FrameType | None) -> None:
    for number in STOPPING:
        signal.signal(number, signal.SIG_DFL)
    raise KeyboardInterrupt
