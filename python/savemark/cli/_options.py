"""The options of `savemark run` that come from the engine's schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from savemark.cli._units import share

if TYPE_CHECKING:
    from savemark.study.keys import Key

# Said by the arguments (target), by the study (workload), or with another sense (seed: the order).
NOT_FLAGS = ("target", "workload", "seed")
ALIASES = {"storage": "--io", "transfer_size": "--bs"}
TRIAL_SECTION = "Options of the trial (a comma list makes a factor; a study may set other defaults)"
METAVARS = {"size": "SIZE", "span": "TIME", "integer": "N", "number": "N", "string": "TEXT"}


class TrialOption(click.Option):
    """One option of a trial; a comma list makes it a factor of the study."""


class TrialCommand(click.Command):
    """Asks the engine for the options when the command runs, not when it is listed."""

    _generated = False

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own parameters and the trial's."""
        if not self._generated:
            self._generated = True
            self.params += trial_options()
        return super().get_params(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the trial's options as a section of their own."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        for title, wanted in (("Options", False), (TRIAL_SECTION, True)):
            chosen = [o for o in options if isinstance(o, TrialOption) is wanted]
            rows = [o.get_help_record(ctx) for o in chosen]
            with formatter.section(title):
                formatter.write_dl([row for row in rows if row is not None])


Decorator = Callable[[Any], Any]


def json_option(what: str) -> Decorator:
    """Return --json, of every command that answers: `what` is printed as JSON."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what} as JSON.")


def show_blocked_option(does: str) -> Decorator:
    """Return --show-blocked, of every command that shows numbers: what it `does` with them."""
    return click.option(
        "--show-blocked", is_flag=True, help=f"{does} numbers that a check forbids, too, marked."
    )


# Of every command that makes a run.
seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    envvar="SAVEMARK_SEED",
    help="Seed of the order of the trials.",
)
# Of every command that shows a run.
expect_option = click.option(
    "--expect",
    multiple=True,
    metavar="EXPR",
    help="What has to be so, or exit with 3: 'write.bandwidth >= 80 GiB/s where workers=16'.",
)
out_option = click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    envvar="SAVEMARK_OUT",
    help="New run folder.  [default: savemark-runs/TIME-STUDY]",
)
max_regression_option = click.option(
    "--max-regression",
    callback=share,
    metavar="PERCENT",
    default="5%",
    show_default=True,
    help="Growth of a time that is tolerated.",
)


def trial_options() -> list[click.Parameter]:
    """Build an option for every key of every workload and storage."""
    from savemark.study.keys import Keys

    keys = Keys.load().by_name.values()
    return [option(key) for key in keys if key.name not in NOT_FLAGS]


def option(key: Key) -> TrialOption:
    """Build the option of one key."""
    help_text = key.description.rstrip(".")
    if key.default is not None:
        help_text += f"  [default: {_spell(key)}]"
    names = [key.flag, *([ALIASES[key.name]] if key.name in ALIASES else [])]
    metavar: str | None = METAVARS.get(key.kind)
    if key.choices:
        metavar = "[" + "|".join(key.choices) + "]"
    if key.kind == "boolean":
        names, metavar = [f"{key.flag}/--no-{key.flag[2:]}"], None
    return TrialOption(
        [key.name, *names],
        default=None,
        metavar=metavar,
        help=help_text,
        envvar=f"SAVEMARK_{key.name.upper()}",
        **({"type": bool} if key.kind == "boolean" else {"type": str}),
    )


def _spell(key: Key) -> str:
    """Write a default as a user would: sizes with their unit, switches as words."""
    if key.kind == "size" and isinstance(key.default, int):
        import savemark._engine as engine

        return engine.format_size(key.default)
    if isinstance(key.default, bool):
        return "on" if key.default else "off"
    return str(key.default)


def as_typed(values: Mapping[str, object]) -> dict[str, str]:
    """Return the options that were given, as text: switches become `true` and `false`."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in values.items()
        if value is not None
    }
