"""Ctrl-C, SIGTERM and SIGHUP stop a run in order; a second Ctrl-C stops it at once.

What the parent has set to be ignored stays ignored: `nohup`, and a shell that starts a command in
the background without job control, ask for it in this way (POSIX: nohup; Shell, 2.9.3.1).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stopping() -> list[signal.Signals]:
    """Return the signals that stop us: those that are not ignored."""
    return [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]


@dataclass
class Stop:
    """Whether a signal came when there was nothing to stop any more."""

    too_late: bool = False


@contextmanager
def stop_in_order(is_complete: Callable[[], bool] = lambda: False) -> Iterator[Stop]:
    """Turn the first signal into KeyboardInterrupt; the next one has the system's own effect.

    Once all that was asked for `is_complete`, signals change nothing.
    """
    stop = Stop()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if is_complete():
            stop.too_late = True
            return
        for number in stopping():
            signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, handle) for number in stopping()}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ignore() -> None:
    """Ignore what stops us: the exit code is known, and the process ends."""
    for number in stopping():
        signal.signal(number, signal.SIG_IGN)
