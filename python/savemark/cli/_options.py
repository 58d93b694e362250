"""The options of `savemark run` that come from the engine's schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from savemark.cli._help import METAVARS, spelt
from savemark.cli._units import share

if TYPE_CHECKING:
    from savemark.study.keys import Key
    from savemark.study.model import Study

# Said by the arguments (target), by the study (workload), or with another sense (seed: the order).
NOT_FLAGS = ("target", "workload", "seed")
ALIASES = {"storage": "--io", "transfer_size": "--bs"}


class TrialOption(click.Option):
    """One option of a trial; a comma list makes it a factor of the study."""


class TrialCommand(click.Command):
    """A command with the trial's options; the engine is asked for them when the command runs."""

    _generated = False

    def __init__(
        self, *given: Any, examples: Sequence[tuple[str, str]], default: str, **more: Any
    ) -> None:
        super().__init__(*given, **more)
        self._examples, self._default = examples, default

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own parameters and the trial's."""
        if not self._generated:
            self._generated = True
            self.params += trial_options()
        return super().get_params(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words for the help, which comes before they are read: it may be of a study."""
        ctx.meta[WORDS] = list(args)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what most people need, or of a study that is named the options that it has."""
        from savemark.cli import _help
        from savemark.study.keys import Keys

        keys, study = Keys.load(), self._study(ctx)
        if study is None:
            self.format_usage(ctx, formatter)
            self.format_help_text(ctx, formatter)
            _help.write(formatter, _help.brief(ctx, self._examples, self._default, keys))
            return
        formatter.write_usage(ctx.command_path, f"{study.name} [OPTIONS] [LABEL=]TARGET...")
        for text in _help.about_study(study):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(text)
        _help.write(formatter, _help.of_study(study, keys))

    def _study(self, ctx: click.Context) -> Study | None:
        """Return the study that is named beside --help, None where there is none."""
        from savemark.run.target import parse
        from savemark.study.keys import Keys
        from savemark.study.load import load
        from savemark.study.shipped import find

        found = self.make_parser(ctx).parse_args(list(ctx.meta.get(WORDS, ())))[0]["arguments"]
        name, _ = parse(tuple(found) if isinstance(found, tuple | list) else ())
        return load(find(name), Keys.load()) if name else None


WORDS = "savemark.words"
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
yes_option = click.option(
    "--yes", is_flag=True, help="Start without a question what takes ten budgets or more."
)
# Of every command that shows a run.
expect_option = click.option(
    "--expect",
    multiple=True,
    metavar="EXPR",
    help="Exit with 3 unless it is so: 'save.bandwidth >= 2 GB/s'.",
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


def study_or_place(
    ctx: click.Context, _param: click.Parameter, text: str
) -> list[CompletionItem[str]]:
    """Complete the name of a study where none is named yet, and directories."""
    from savemark.study.shipped import shipped

    known = [] if ctx.params.get("arguments") else shipped()
    found = [CompletionItem(name) for name in known if name.startswith(text)]
    return found or [CompletionItem(text, type="dir")]


def as_typed(values: Mapping[str, object]) -> dict[str, str]:
    """Return the options that were given, as text: switches become `true` and `false`."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in values.items()
        if value is not None
    }
