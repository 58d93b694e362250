"""`savemark studies`: the shipped studies."""

from __future__ import annotations

import json

import click

from savemark.cli._options import json_option
from savemark.cli._print import echo


@click.command("studies")
@json_option("what is found")
def command(as_json: bool) -> None:
    """List the shipped studies."""
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
