"""`savemark schema`: the options of a trial, a record, or a row of an export, as JSON Schema."""

from __future__ import annotations

import json

import click

from savemark.cli._print import echo


@click.command("schema", short_help="Print the JSON Schema of options, records or exports.")
@click.option("--records", is_flag=True, help="The fields of a record instead.")
@click.option("--table", is_flag=True, help="The columns of `savemark export` instead.")
def command(records: bool, table: bool) -> None:
    """Print the JSON Schema of all options of a trial, of a record, or of a row of an export."""
    if records and table:
        raise click.UsageError("--records and --table are two schemas: ask for one")
    if table:
        from savemark.records import export

        echo(json.dumps(export.schema(), indent=2, ensure_ascii=False))
        return
    import savemark._engine as engine

    text = engine.record_schema() if records else engine.schema()
    echo(json.dumps(json.loads(text), indent=2))
