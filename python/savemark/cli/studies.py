"""`savemark studies`: the shipped studies, and what one of them says."""

from __future__ import annotations

import json

import click

from savemark.cli._options import json_option
from savemark.cli._print import echo


@click.group("studies", invoke_without_command=True, short_help="List the shipped studies.")
@json_option("what is found")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the shipped studies; `savemark studies show NAME` prints the YAML of one.

    Copy it to make one of your own: savemark studies show quick > mine.yaml
    """
    if ctx.invoked_subcommand is None:
        _list(as_json)


def _list(as_json: bool) -> None:
    from savemark.study.load import parse
    from savemark.study.shipped import shipped

    found = [(name, str(parse(file)["title"]), str(file)) for name, file in shipped().items()]
    if as_json:
        rows = [{"name": name, "title": title, "file": file} for name, title, file in found]
        echo(json.dumps(rows))
        return
    width = max(len(name) for name, _, _ in found)
    for name, title, _ in found:
        echo(f"{name:<{width}}  {title}")


def _names(_ctx: click.Context, _param: click.Parameter, text: str) -> list[str]:
    from savemark.study.shipped import shipped

    return [name for name in shipped() if name.startswith(text)]


@command.command("show")
@click.argument("name", shell_complete=_names)
def show(name: str) -> None:
    """Print the YAML of the shipped study NAME."""
    from savemark.study.shipped import source

    echo(source(name), nl=False)
