"""`savemark crosscheck`: hold this program against the tools that people trust."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path

import click

from savemark import files
from savemark.cli._options import json_option, show_blocked_option
from savemark.cli._print import echo, terminal


@click.command("crosscheck", short_help="Do the same with savemark and other tools.")
@click.argument("target", metavar="[LABEL=]TARGET")
@click.option("--tool", "tools", metavar="NAME,...", help="Tools to run.  [default: all on PATH]")
@click.option("--only", metavar="PART,...", help="Kinds of work.  [default: all that apply]")
@click.option(
    "--size", metavar="SIZE", default="256MiB", show_default=True, help="Bytes of a file."
)
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    metavar="N",
    default=6,
    show_default=True,
    help="Runs of every setting.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="New folder for the runs.  [default: savemark-runs/TIME-crosscheck]",
)
@show_blocked_option("Show")
@json_option("the result (or the error)")
def command(
    target: str,
    tools: str | None,
    only: str | None,
    size: str,
    repeats: int,
    out: Path | None,
    show_blocked: bool,
    as_json: bool,
) -> int:
    """Run the same settings with savemark and with every tool on PATH, interleaved.

    TARGET is an empty directory, or the URL of a bucket. The result is a table of agreement: rate,
    spread, ratio to savemark, whether the repeats can tell them apart, and CPU time per operation.
    """
    import savemark._engine as engine
    from savemark.cli._display import Display
    from savemark.run import crosscheck
    from savemark.run.start import RUNS
    from savemark.run.target import parse

    _, targets = parse((target if "=" in target or "/" in target else f"./{target}",))
    wanted = crosscheck.Wanted(
        target=targets[0],
        tools=crosscheck.chosen(tools),
        only=only.split(",") if only else (),
        size=engine.parse_size(size),
        repeats=repeats,
    )
    folder = out or RUNS / f"{datetime.now():%Y-%m-%dT%H-%M-%S}-crosscheck"
    display = Display()
    try:
        crosscheck.run(wanted, folder, display, ("savemark", *sys.argv[1:]))
    finally:
        display.close()
    return _show(folder, as_json, show_blocked)


def _show(folder: Path, as_json: bool, show_blocked: bool) -> int:
    from savemark.report import agreement

    parts = agreement.read(folder, show_blocked=show_blocked)
    files.write_text(folder / "crosscheck.md", agreement.markdown(parts))
    if as_json:
        echo(json.dumps(agreement.as_json(parts)))
    else:
        agreement.show(parts, terminal())
        echo(f"report      {folder / 'crosscheck.md'}")
    failed = sum(len(part.run.failed) for part in parts)
    if failed:
        echo(f"error: {failed} trials failed; see log.txt in each folder", err=True)
    return 1 if failed else 0
