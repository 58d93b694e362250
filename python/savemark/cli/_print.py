"""The one way from a command to its terminal: what came from outside moves no cursor there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from savemark import escape
from savemark.launcher import launched

if TYPE_CHECKING:
    from rich.console import Console


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text to stdout, or with `err` to stderr."""
    click.echo(escape.printable(text), err=err, nl=nl)


def terminal(**how: Any) -> Console:
    """Return a console for tables, colours and bars; of all it prints only colours are obeyed.

    One of several ranks has none, unless FORCE_COLOR says so: Open MPI gives each process a
    terminal, also where its own output goes into a file.
    """
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Terminal(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                if segment.control:
                    yield segment
                else:
                    yield segment._replace(text=escape.printable(segment.text))

    if launched()[1] > 1 and not os.environ.get("FORCE_COLOR"):
        how["force_terminal"] = False
    return Terminal(highlight=False, **how)
