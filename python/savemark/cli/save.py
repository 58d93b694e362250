"""`savemark save`: files, a running process, or a container, to a checkpoint."""

from __future__ import annotations

import os

import click

from savemark.cli._options import json_option
from savemark.cli._print import echo
from savemark.cli._transfer import SaveCommand, alone, ranks_option, show, typed, watched


@click.command(
    "save", short_help="Save files, a process or a container as a checkpoint.", cls=SaveCommand
)
@click.argument("source", metavar="[SRC]", required=False)
@click.argument("destination", metavar="DEST", required=False)
@click.option(
    "--pid", type=int, metavar="PID", help="Save this running process, with its children."
)
@click.option(
    "--container",
    metavar="NAME",
    help="Save this container of runc or podman (`runc:NAME` says whose).",
)
@click.option(
    "--work", metavar="DIR", help="Where a container's runtime writes its images first (TMPDIR)."
)
@click.option(
    "--leave-running",
    is_flag=True,
    help="Let the process or container go on when it is saved; else it is killed.",
)
@click.option(
    "--criu-options",
    default="",
    metavar="TEXT",
    help="Options of CRIU, as `--shell-job --tcp-established`; kept for the restore.",
)
@click.option(
    "--cut-pipes",
    is_flag=True,
    help="Save it though a pipe leads to a process outside: restored, it finds the pipe's end.",
)
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    metavar="N",
    help="DEST holds several checkpoints: add one, then remove all but the newest N complete ones.",
)
@ranks_option
@json_option("the report (or the error)")
def command(
    source: str | None,
    destination: str | None,
    pid: int | None,
    container: str | None,
    work: str | None,
    leave_running: bool,
    criu_options: str,
    cut_pipes: bool,
    keep: int | None,
    ranks: str | None,
    as_json: bool,
    **options: object,
) -> None:
    """Save the file or directory SRC, or a process or container, as the checkpoint DEST, durably.

    The checkpoint that is there stays whole until the new one is complete. SRC must not be written
    to meanwhile. A process stands still meanwhile (CRIU does that); if it cannot be saved it goes
    on. `savemark restore DEST` brings it back.
    """
    import savemark._engine as engine
    from savemark.checkpoint import transfer

    where, name = _destination_and_source(source, destination, pid, container)
    alone(ranks, "save")
    _check(pid, container, leave_running, bool(criu_options) or cut_pipes, work)
    if pid is None and container is None:
        _check_source(name, where)
    with watched() as progress:

        def write(trial: str) -> str:
            if container is not None:
                from savemark.containers import transfer as of_containers

                return of_containers.save(
                    container,
                    leave_running,
                    work,
                    lambda folder: engine.save_tree(trial, folder, progress),
                )
            if pid is None:
                return engine.save_tree(trial, name, progress)
            return engine.save_process(trial, pid, leave_running, criu_options, cut_pipes, progress)

        done = transfer.save(where, write, typed(options), keep)
    facts = ["durable" if done["durable"] else "not durable (a filesystem in memory)"]
    if pid is not None or container is not None:
        runs_on = leave_running or not done["durable"]
        what = f"process {pid}" if container is None else f"container {container}"
        facts.append(f"{what} {'goes on' if runs_on else 'was killed'}")
    show("saved", done, as_json, facts)
    if keep is not None and not as_json:
        echo(f"checkpoint  {done['checkpoint']}")
        for removed in done["removed"]:
            echo(f"removed     {removed}")
        for note in done["path"]["notes"]:
            if "was not removed" in note:
                echo(f"note: {note}", err=True)


def _destination_and_source(
    source: str | None, destination: str | None, pid: int | None, container: str | None
) -> tuple[str, str]:
    """Return DEST and SRC: with --pid or --container there is no SRC."""
    from savemark.errors import usage

    named = "--pid" if pid is not None else "--container"
    if pid is not None and container is not None:
        raise usage("--pid and --container both name what to save", "leave one out")
    is_files = pid is None and container is None
    if not is_files and destination is not None:
        raise usage(
            f"{named} names what to save: there is no SRC beside it",
            f"savemark save {named} … DEST",
        )
    where = destination if is_files else source
    if source is None or where is None:
        raise usage(
            "what to save, or where, is missing",
            "savemark save SRC DEST, or savemark save --pid PID DEST",
        )
    return where, source


def _check_source(source: str, where: str) -> None:
    """Refuse what is not there, and a place inside what is to be saved."""
    from savemark.errors import usage
    from savemark.places import check_apart

    if not os.path.lexists(source):
        raise usage(f"there is no file or directory {source}", "check the path")
    check_apart(source, where, "which is to be saved")


def _check(
    pid: int | None, container: str | None, leave_running: bool, of_criu: bool, work: str | None
) -> None:
    """Refuse options that say nothing about what is saved."""
    from savemark.errors import usage

    if of_criu and pid is None:
        raise usage("--criu-options and --cut-pipes are for a process", "add --pid PID")
    if leave_running and pid is None and container is None:
        raise usage("--leave-running is for a process or a container", "add --pid PID")
    if work is not None and container is None:
        raise usage("--work is for a container", "add --container NAME")
