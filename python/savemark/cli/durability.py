"""`savemark durability`: what the sync policies promise, and whether they keep it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from savemark.cli._options import json_option
from savemark.cli._print import echo, terminal

if TYPE_CHECKING:
    from savemark.crash.findings import Finding
    from savemark.crash.jobs import Plan


@click.command("durability", short_help="Crash-test the sync policies and savemark's own save.")
@click.option(
    "--crash", is_flag=True, help="Play crashes (as root; nothing of this machine is written to)."
)
@click.option("--policies", metavar="LIST", help="Test only these.  [default: all]")
@click.option("--filesystems", metavar="LIST", default="ext4,xfs,btrfs", show_default=True)
@click.option(
    "--points",
    type=click.IntRange(min=0),
    default=60,
    show_default=True,
    help="Power losses of each policy, over all filesystems.",
)
@click.option(
    "--kills", type=click.IntRange(min=0), default=20, show_default=True, help="Kills of each."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the random choices.")
@click.option(
    "--lag",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Let the disk lie: it confirms flushes, and is up to N writes behind.  [default: honest]",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the whole result as Markdown.",
)
@json_option("what is found")
def command(crash: bool, as_json: bool, out: Path | None, **options: Any) -> int:
    """List what each sync policy promises; with --crash, find out what crashes leave.

    What the policies cost is another question: savemark run durability DIR.

    Kills and power losses are played on ext4, xfs and btrfs in memory: every write and flush that
    reaches the device is recorded, and the checkpoint restored from what a failure would have left.
    A contract that is broken makes the exit code 1.
    """
    from savemark.crash import jobs

    contracts = jobs.contracts()
    if not crash:
        _list(contracts, as_json)
        return 0
    plan = _plan([c["subject"] for c in contracts], **options)
    found = _play(plan, contracts)
    if out is not None:
        from savemark.crash import page

        out.write_text(page.markdown(plan, found, _machine(), _command(plan)), encoding="utf-8")
    _show(found, as_json)
    return 1 if any(f.broken for f in found) else 0


def _list(contracts: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        echo(json.dumps(contracts))
        return
    width = max(len(c["subject"]) for c in contracts)
    for contract in contracts:
        echo(f"{contract['subject'].ljust(width)}  {contract['contract']}")


def _plan(known: list[str], policies: str | None, filesystems: str, **counts: int) -> Plan:
    from savemark.crash.jobs import FILESYSTEMS, Plan

    subjects = _names(policies, known, "policy") if policies else tuple(known)
    places = _names(filesystems, list(FILESYSTEMS), "filesystem")
    return Plan(subjects=subjects, filesystems=places, **counts)


def _names(text: str, known: list[str], noun: str) -> tuple[str, ...]:
    from savemark.errors import did_you_mean, usage

    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in known:
            raise usage(f"there is no {noun} `{name}`", did_you_mean(name, known))
    if not names:
        raise usage(f"no {noun} is named", f"known here: {', '.join(known)}")
    return names


def _play(plan: Plan, contracts: list[dict[str, Any]]) -> list[Finding]:
    from rich.progress import Progress

    from savemark.crash import findings, jobs

    console = terminal(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("crash tests", total=len(plan.jobs()))
        results = jobs.run(plan, lambda _: bar.advance(task))
    return findings.collect(contracts, results)


def _show(found: list[Finding], as_json: bool) -> None:
    from savemark.crash import page

    if as_json:
        echo(json.dumps({"findings": [f.as_json() for f in found]}))
        return
    for line in page.lines(found):
        echo(line)
    for finding in found:
        for example in finding.examples:
            echo(f"{finding.subject}: {example}")


def _machine() -> str:
    import platform

    import savemark

    system = f"{platform.system()} {platform.release()} ({platform.machine()})"
    return f"{system}, savemark {savemark.__version__}"


def _command(plan: Plan) -> str:
    from savemark.crash.jobs import FILESYSTEMS

    parts = ["savemark durability --crash"]
    if plan.filesystems != FILESYSTEMS:
        parts.append(f"--filesystems {','.join(plan.filesystems)}")
    parts += [f"--points {plan.points}", f"--kills {plan.kills}", f"--seed {plan.seed}"]
    return " ".join(parts + ([f"--lag {plan.lag}"] if plan.lag else []))
