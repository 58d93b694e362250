"""`savemark save`: files, or a running process, to a checkpoint."""

from __future__ import annotations

import click

from savemark.cli._transfer import SaveCommand, show, typed, watched


@click.command(
    "save", short_help="Save files, or a running process, as a checkpoint.", cls=SaveCommand
)
@click.argument("source", metavar="[SRC]", required=False)
@click.argument("destination", metavar="DEST", required=False)
@click.option(
    "--pid", type=int, metavar="PID", help="Save this running process, with its children."
)
@click.option(
    "--leave-running",
    is_flag=True,
    help="Let the process go on when it is saved; else it is killed.",
)
@click.option(
    "--criu-options",
    default="",
    metavar="TEXT",
    help="Options of CRIU, as `--shell-job --tcp-established`; kept for the restore.",
)
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    metavar="N",
    help="DEST holds several checkpoints: add one, then remove all but the newest N complete ones.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report (or the error) as JSON.")
def command(
    source: str | None,
    destination: str | None,
    pid: int | None,
    leave_running: bool,
    criu_options: str,
    keep: int | None,
    as_json: bool,
    **options: object,
) -> None:
    """Save the file or directory SRC, or the process PID, as the checkpoint DEST, durably.

    The checkpoint that is there stays whole until the new one is complete. SRC must not be written
    to meanwhile. A process stands still meanwhile (CRIU does that); if it cannot be saved it goes
    on. `savemark restore DEST` brings it back.
    """
    import savemark._engine as engine
    from savemark.checkpoint import transfer

    where, name = _said(source, destination, pid, leave_running or bool(criu_options))
    with watched() as progress:

        def write(trial: str) -> str:
            if pid is None:
                return engine.save_tree(trial, name, progress)
            return engine.save_process(trial, pid, leave_running, criu_options, progress)

        done = transfer.save(where, write, typed(options), keep)
    facts = ["durable" if done["durable"] else "not durable (a filesystem in memory)"]
    if pid is not None:
        runs_on = leave_running or not done["durable"]
        facts.append(f"process {pid} {'goes on' if runs_on else 'was killed'}")
    show("saved", done, as_json, facts)
    if keep is not None and not as_json:
        click.echo(f"checkpoint  {done['checkpoint']}")
        for removed in done["removed"]:
            click.echo(f"removed     {removed}")


def _said(
    source: str | None, destination: str | None, pid: int | None, of_process: bool
) -> tuple[str, str]:
    """Return DEST and SRC: with --pid there is no SRC."""
    from savemark.errors import usage

    if pid is not None and destination is not None:
        raise usage(
            "--pid names what to save: there is no SRC beside it", "savemark save --pid PID DEST"
        )
    if pid is None and of_process:
        raise usage("--leave-running and --criu-options are for a process", "add --pid PID")
    where = destination if pid is None else source
    if source is None or where is None:
        raise usage(
            "what to save, or where, is missing",
            "savemark save SRC DEST, or savemark save --pid PID DEST",
        )
    return where, source
