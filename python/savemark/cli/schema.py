"""`savemark schema`: every option of a trial, or every field of a record, as JSON Schema."""

from __future__ import annotations

import json

import click


@click.command("schema")
@click.option("--records", is_flag=True, help="The fields of a record instead.")
def command(records: bool) -> None:
    """Print the JSON Schema of all options of a trial, or of a record."""
    import savemark._engine as engine

    text = engine.record_schema() if records else engine.schema()
    click.echo(json.dumps(json.loads(text), indent=2))
