"""The options of `savemark run` that come from the engine's schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from savemark.study.keys import Key

METAVARS = {"size": "SIZE", "span": "TIME", "integer": "N", "number": "N", "string": "TEXT"}
# Said by the arguments (target), by the study (workload), or with another sense (seed: the order).
NOT_FLAGS = ("target", "workload", "seed")
ALIASES = {"storage": "--io", "transfer_size": "--bs"}


class TrialOption(click.Option):
    """One option of a trial; a comma list makes it a factor of the study."""


def trial_options() -> list[click.Parameter]:
    """Build an option for every key of every workload and storage."""
    from savemark.study.keys import Keys

    keys = Keys.load().by_name.values()
    return [option(key) for key in keys if key.name not in NOT_FLAGS]


def option(key: Key) -> TrialOption:
    """Build the option of one key."""
    help_text = key.description.rstrip(".")
    if key.default is not None:
        help_text += f"  [default: {spelt(key, key.default)}]"
    metavar: str | None = METAVARS.get(key.kind)
    if key.choices:
        metavar = "[" + "|".join(key.choices) + "]"
    if key.kind == "boolean":
        metavar = None
    return TrialOption(
        [key.name, *names(key)],
        default=None,
        metavar=metavar,
        help=help_text,
        envvar=f"SAVEMARK_{key.name.upper()}",
        shell_complete=lambda _ctx, _param, text: list(_completed(key, text)),
        **({"type": bool} if key.kind == "boolean" else {"type": str}),
    )


def names(key: Key) -> list[str]:
    """Return how the option of a key is typed: `--storage` and `--io`; of a switch both ways."""
    if key.kind == "boolean":
        return [f"{key.flag}/--no-{key.flag[2:]}"]
    return [key.flag, *([ALIASES[key.name]] if key.name in ALIASES else [])]


def _completed(key: Key, text: str) -> Iterator[CompletionItem[str]]:
    """Complete the last of the levels that are typed with commas."""
    before, comma, last = text.rpartition(",")
    for choice in key.choices:
        if choice.startswith(last) and choice not in before.split(","):
            yield CompletionItem(f"{before}{comma}{choice}")


def spelt(key: Key, value: object) -> str:
    """Write a value as a user would: sizes with their unit, switches as words, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    if key.kind == "size" and isinstance(value, int):
        import savemark._engine as engine

        return engine.format_size(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
