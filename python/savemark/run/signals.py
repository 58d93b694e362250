"""Ctrl-C, SIGTERM and SIGHUP stop a run in order; a second Ctrl-C stops it at once.

What the parent has set to be ignored stays ignored: `nohup`, and a shell that starts a command in
the background without job control, ask for it in this way (POSIX: nohup; Shell, 2.9.3.1).
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stopping() -> list[signal.Signals]:
    """Return the signals that stop us: those that are not ignored."""
    return [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def stop_in_order() -> Iterator[None]:
    """Turn the first signal into KeyboardInterrupt; the next one has the system's own effect."""
    before = {number: signal.signal(number, _stop) for number in stopping()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(_number: int, _frame: FrameType | None) -> None:
    for number in stopping():
        signal.signal(number, signal.SIG_DFL)
    raise KeyboardInterrupt
