"""What the commands of a checkpoint share: options from the engine's schema, a bar, a result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from savemark.checkpoint.options import RestoreOptions, SaveOptions, names
from savemark.cli._print import echo, terminal
from savemark.cli._trial import option
from savemark.places.bucket import RequestLimits

if TYPE_CHECKING:
    from rich.progress import Progress

    from savemark.checkpoint.transfer import Report

Json = dict[str, Any]


class TransferCommand(click.Command):
    """A command with options of the engine, which is asked for them when the command runs."""

    engine_options: tuple[str, ...] = ()
    _generated = False

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own parameters and the engine's."""
        if not self._generated:
            self._generated = True
            from savemark.study.keys import Keys

            keys = Keys.load()
            self.params += [option(keys.key(name)) for name in self.engine_options]
        return super().get_params(ctx)


class WholeCommand(TransferCommand):
    """One operation: a signal that comes when it is complete changes nothing."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; say so where it could not be stopped any more."""
        import savemark._engine as engine
        from savemark.signals import stop_in_order

        with stop_in_order(engine.is_complete) as stop:
            result: object = super().invoke(ctx)
            if engine.was_too_late() or stop.too_late:
                echo("note: the interrupt came too late: all was done", err=True)
        return result


class SaveCommand(WholeCommand):
    """Writes a checkpoint."""

    engine_options = names(SaveOptions)


class ReadCommand(WholeCommand):
    """Reads a checkpoint: codec, streams and chunks are those it was saved with."""

    engine_options = names(RestoreOptions)


class LookCommand(TransferCommand):
    """Looks at a place, and reads no data."""

    engine_options = names(RequestLimits)


def alone(ranks: str | None, verb: str) -> None:
    """Refuse to save or restore as one of several processes, unless each is meant to."""
    from savemark.checkpoint.processes import check

    check(ranks, verb, "--ranks independent")


ranks_option = click.option(
    "--ranks",
    type=click.Choice(["independent"]),
    help="One of several processes (mpirun, srun, torchrun) has a checkpoint of its own: each may "
    "go on from another step.",
)


def typed(options: Mapping[str, object]) -> Json:
    """Return the options that were given, in base units."""
    from savemark.cli._options import as_typed
    from savemark.study.keys import Keys

    keys = Keys.load()
    return {name: keys.key(name).read_text(text) for name, text in as_typed(options).items()}


@contextmanager
def watched() -> Iterator[Callable[[Json], object] | None]:
    """Show a bar with rate and time left on a terminal, and nothing elsewhere."""
    console = terminal(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        yield None
        return
    with _bar(console) as bar:
        task = bar.add_task("", total=None)

        def show(now: Json) -> None:
            total = now["total_bytes"] or None
            bar.update(task, description=now["phase"], total=total, completed=now["done_bytes"])

        yield show


def _bar(console: Any) -> Progress:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
        transient=True,
    )


def show(verb: str, done: Report, as_json: bool, facts: list[str]) -> None:
    """Print the result: `saved 4.1 GiB in 2.1 s · 1.95 GB/s · zstd 1.28× · durable`."""
    if as_json:
        echo(json.dumps(done))
        return
    from savemark.cli._words import BINARY
    from savemark.units import rate_text

    size, seconds = done["user_bytes"], max(done["elapsed_ns"], 1) / 1e9
    step, unit = next(((s, u) for s, u in BINARY if size >= s), (1, "B"))
    amount = f"{size / step:.1f} {unit}" if step > 1 else f"{size} B"
    time = f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"
    codec = done["codec"]
    if codec != "none":
        codec += f" {size / max(done['stored_bytes'], 1):.2f}×"
    parts = [f"{verb} {amount} in {time}", rate_text(size / seconds), codec, *facts]
    echo(" · ".join(parts))
