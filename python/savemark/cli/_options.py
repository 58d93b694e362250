"""Options that several commands share, and the commands that take those of a trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from savemark.cli import _help
from savemark.cli._trial import trial_options
from savemark.cli._units import share

if TYPE_CHECKING:
    from savemark.study.model import Study


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
