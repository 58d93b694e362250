"""The command line. One file per command, found by name and imported when it runs."""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from keyword import iskeyword
from pathlib import Path

import click

from savemark.cli._print import echo
from savemark.errors import SavemarkError, did_you_mean, from_exception, usage

# One file of this package each; listed in the order in which a user meets them.
COMMANDS = [
    "run",
    "report",
    "import",
    "export",
    "crosscheck",
    "compare",
    "gate",
    "pair",
    "io500",
    "advise",
    "check",
    "durability",
    "save",
    "restore",
    "verify",
    "list",
    "clean",
    "studies",
    "schema",
    "doctor",
]


# They write to a target, and would do so as often as there are processes.
ALONE = ("crosscheck", "durability", "gate", "pair")


class Commands(click.Group):
    """Imports a command's file when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, in the order of the list."""
        del ctx
        return COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; None for an unknown name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        # A file may not be called `import`.
        file = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command: click.Command = import_module(f"savemark.cli.{file}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is named first; an unknown one is told with the nearest."""
        name = args[0]
        is_wrong = name not in COMMANDS and not name.startswith("-")
        if is_wrong and not ctx.resilient_parsing:  # a shell that completes wants no errors
            is_place = "/" in name or Path(name).is_dir()
            hint = f"savemark run {name}" if is_place else did_you_mean(name, COMMANDS)
            raise usage(f"there is no command `{name}`", hint)
        return super().resolve_command(ctx, args)


def _show_version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from savemark.cli._features import version_text

        echo(version_text())
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Print the version and what the engine can do here.",
)
def cli() -> None:
    """Measure how fast storage saves and restores checkpoints, and how close that is to its limits.

    Start with: savemark run /path/to/an/empty/directory
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; the one place where errors become messages and exit codes."""
    is_alone = arguments is None
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
        if is_alone:
            from savemark.signals import ignore

            ignore()
    except BrokenPipeError:
        # The reader of our output left (`savemark studies | head -1`); that is no failure of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    from savemark.launcher import launched

    try:
        if arguments[:1] and arguments[0] in ALONE and launched()[1] > 1:
            raise usage(
                f"{arguments[0]} runs in one process, and {launched()[1]} were started",
                "start it without mpirun; `savemark run` is what ranks do together",
            )
        result = cli.main(arguments, prog_name="savemark", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        echo(error.format_message())
        return 2
    except click.ClickException as error:
        return _report(_from_click(error), arguments)
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt, click.Abort) as error:
        if os.environ.get("SAVEMARK_DEBUG") == "1":
            raise
        cause = KeyboardInterrupt() if isinstance(error, click.Abort) else error
        return _report(from_exception(cause) or _bug(error), arguments)


def _from_click(error: click.ClickException) -> SavemarkError:
    hint = None
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"{error.ctx.command_path} --help lists what is known"
    return SavemarkError("usage", error.format_message().rstrip("."), hint)


def _bug(error: BaseException) -> SavemarkError:
    return SavemarkError(
        "failed",
        f"a bug in savemark: {type(error).__name__}: {error}",
        "please report it with the output of the same command under SAVEMARK_DEBUG=1",
    )


def _report(error: SavemarkError, arguments: list[str]) -> int:
    """Print an error where its reader looks for it; return its exit code."""
    from savemark.launcher import launched

    if launched()[0] > 0:
        return error.exit_code  # the first of several processes says it
    if "--json" in arguments:
        echo(json.dumps({"error": error.as_json()}))
    else:
        echo(f"error: {error.message}", err=True)
        if error.hint:
            echo(f"hint: {error.hint}", err=True)
    return error.exit_code
