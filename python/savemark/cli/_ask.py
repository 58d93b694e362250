"""The question before a run that takes far longer than its study is meant to."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

import click

from savemark.cli._display import Display
from savemark.cli._words import about, bytes_text
from savemark.errors import refused
from savemark.launcher import launched
from savemark.run.forecast import Forecast

# Budgets of its study that a run may take unasked.
BUDGETS = 10


class Asking(Display):
    """Shows a run, and asks before it starts one that takes more than ten budgets of its study."""

    def __init__(self, command: Sequence[str], *, yes: bool) -> None:
        super().__init__()
        self._command, self._yes = command, yes

    def agree(self, found: Forecast) -> None:
        """Ask on a terminal; elsewhere refuse, with the command that starts it."""
        if self._yes or found.seconds * found.stretch <= BUDGETS * found.study.budget_s:
            return
        self.close()  # the terminal is for the question
        what = _what(found)
        if _somebody_answers():
            if click.confirm(f"{what} Start it?", err=True):
                return
            raise refused("not started", _less(found))
        raise refused(
            f"not started without a word from you: {what}",
            f"to start it: {shlex.join([*self._command, '--yes'])}; {_less(found)}",
        )


def _what(found: Forecast) -> str:
    """Return how long it takes and what it writes, with all repeats that --until allows."""
    seconds, written = found.seconds * found.stretch, found.written_bytes * found.stretch
    budget = about(found.study.budget_s)[6:]
    return (
        f"{found.study.name} is meant for {budget}; as asked it takes {about(seconds)} and writes "
        f"{bytes_text(written)}."
    )


def _less(found: Forecast) -> str:
    """Return how to make it shorter: a race gives its finalists all repeats in any case."""
    if found.study.race is not None:
        return "a smaller --size takes less"
    return "--budget 20m holds it to that time"


def _somebody_answers() -> bool:
    """Whether a question reaches a person: several ranks have no terminal of their own."""
    return sys.stdin.isatty() and sys.stderr.isatty() and launched()[1] < 2
