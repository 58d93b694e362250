"""`savemark restore`: a checkpoint back to files, or to a process or container that runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from savemark.cli._options import json_option
from savemark.cli._transfer import ReadCommand, alone, ranks_option, show, typed, watched

if TYPE_CHECKING:
    from savemark.checkpoint.transfer import Progress
    from savemark.places import Place


@click.command(
    "restore",
    short_help="Restore a checkpoint: files, or a process or container that goes on.",
    cls=ReadCommand,
)
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="[DEST]", required=False)
@click.option("--container", is_flag=True, help="A container was saved: start it.")
@click.option("--bundle", metavar="DIR", help="The container's bundle, where it is elsewhere now.")
@click.option(
    "--work", metavar="DIR", help="Where a container's images lie while it starts (TMPDIR)."
)
@ranks_option
@json_option("the report (or the error)")
def command(
    source: str,
    destination: str | None,
    container: bool,
    bundle: str | None,
    work: str | None,
    ranks: str | None,
    as_json: bool,
    **options: object,
) -> None:
    """Restore the checkpoint SRC (of several, the newest complete one) into the new directory DEST.

    Every byte is verified. DEST appears when all of it is durable, or not at all.

    The checkpoint of a process needs no DEST: the process goes on, under its old number, when every
    byte is verified. With DEST its images are written there, as `criu restore` reads them.
    """
    import savemark._engine as engine
    from savemark import places
    from savemark.checkpoint import listing, transfer
    from savemark.errors import usage

    alone(ranks, "restore")
    if container and destination is not None:
        raise usage("--container starts it: there is no DEST", f"savemark restore {source}")
    if not container and (bundle or work):
        raise usage("--bundle and --work are for a container", "add --container")
    into = places.directory(destination) if destination is not None else None
    if destination is not None:
        places.check_apart(source, destination, "the checkpoint")
    said = typed(options)
    given = places.at(source, said)
    where = listing.newest(given)
    trial = where.trial(said)
    with watched() as progress:
        pid = started = None
        if container:
            from savemark.containers import transfer as of_containers

            started, found = of_containers.restore(
                lambda folder: engine.restore_tree(trial, folder, progress), bundle, work
            )
        elif into is None:
            pid, found = _process(where, trial, progress)
        else:
            found = engine.restore_tree(trial, into, progress)
    done = transfer.report(where, json.loads(found))
    if pid is not None:
        done["pid"] = pid
    if started is not None:
        done["container"] = started
    runs = [] if pid is None else [f"process {pid} goes on"]
    runs += [] if started is None else [f"container {started} goes on"]
    which = [] if where is given else [f"from {where.name}"]
    show("restored", done, as_json, ["verified", *runs, *which])


def _process(where: Place, trial: str, progress: Progress | None) -> tuple[int, str]:
    """Restore a process; say it where files or a state were saved."""
    import savemark._engine as engine
    from savemark.errors import usage

    found = json.loads(engine.contents(where.looking()))["checkpoint"]
    if found and not found["damage"] and found["kind"] != "process":
        raise usage(
            f"{where} holds {found['kind']}, not a process: DEST is missing",
            "name a new directory to restore into; if a container was saved: --container"
            if found["kind"] == "files"
            else "a state is restored by savemark.restore, in Python",
        )
    return engine.restore_process(trial, progress)
