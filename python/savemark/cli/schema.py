"""`savemark schema`: every option of a trial, as JSON Schema."""

from __future__ import annotations

import json

import click


@click.command("schema")
def command() -> None:
    """Print the JSON Schema of all options of a trial."""
    import savemark._engine as engine

    click.echo(json.dumps(json.loads(engine.schema()), indent=2))
