"""`savemark save`: files to a checkpoint."""

from __future__ import annotations

import click

from savemark.cli._transfer import SaveCommand, show, typed, watched


@click.command("save", short_help="Save files as a checkpoint, durably.", cls=SaveCommand)
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DEST")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    metavar="N",
    help="DEST holds several checkpoints: add one, then remove all but the newest N complete ones.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report (or the error) as JSON.")
def command(
    source: str, destination: str, keep: int | None, as_json: bool, **options: object
) -> None:
    """Save the file or directory SRC as the checkpoint DEST, durably.

    The checkpoint that is there stays whole until the new one is complete. SRC must not be written
    to meanwhile.
    """
    import savemark._engine as engine
    from savemark.checkpoint import transfer

    with watched() as progress:
        done = transfer.save(
            destination,
            lambda trial: engine.save_tree(trial, source, progress),
            typed(options),
            keep,
        )
    facts = ["durable" if done["durable"] else "not durable (a filesystem in memory)"]
    show("saved", done, as_json, facts)
    if keep is not None and not as_json:
        click.echo(f"checkpoint  {done['checkpoint']}")
        for name in done["removed"]:
            click.echo(f"removed     {name}")
