"""A container to a checkpoint and back: it stands still, its runtime writes, the engine saves.

It is killed when the checkpoint is durable, and goes on if anything fails, this process being
killed included: a shell beside it waits for that.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from savemark import containers
from savemark.containers import Runtime
from savemark.errors import SavemarkError, refused, usage

Json = dict[str, Any]
FACTS = "savemark-container.json"
VERSION = 1
# It reads `done`, or the end of its input: then nobody else is left to let the container go on.
GUARD = 'read -r line; [ "$line" = done ] || "$@"'


@contextmanager
def folder(work: str | None) -> Iterator[Path]:
    """Make a folder for what the runtime writes; where it is, there must be room."""
    if work is not None and not Path(work).is_dir():
        raise usage(f"--work: there is no directory {work}", "make it, or leave --work out")
    with tempfile.TemporaryDirectory(prefix="savemark-container-", dir=work) as path:
        yield Path(path)


def save(text: str, run_on: bool, work: str | None, write: Callable[[str], str]) -> str:
    """Save the container `[RUNTIME:]NAME`; `write` saves a folder and returns the report."""
    runtime, name = containers.find(text)
    with folder(work) as place, _held(runtime, name) as held:
        saved = place / "saved"
        saved.mkdir()
        facts = {"version": VERSION, "runtime": runtime.NAME, "name": name}
        facts |= {"runtime_version": runtime.version(), "facts": runtime.facts(name)}
        (saved / FACTS).write_text(json.dumps(facts))
        runtime.checkpoint(name, saved)
        report = write(str(saved))
        if json.loads(report)["phase"]["durable"] and not run_on:
            held.end()
        return report


def restore(read: Callable[[str], str], bundle: str | None, work: str | None) -> tuple[str, str]:
    """Restore a container; `read` restores into a folder and returns the report.

    Return the container, as `RUNTIME:NAME`, and the report.
    """
    with folder(work) as place:
        report = read(str(place / "saved"))
        facts = _facts(place / "saved" / FACTS)
        runtime, name = containers.runtime(str(facts["runtime"])), str(facts["name"])
        runtime.restore(name, place / "saved", facts["facts"], bundle)
        return f"{runtime.NAME}:{name}", report


def _facts(path: Path) -> Json:
    if not path.exists():
        raise usage(
            "this is not the checkpoint of a container", "leave --container out, and name DEST"
        )
    facts = dict(json.loads(path.read_text()))
    if facts.get("version") != VERSION:
        raise refused(
            f"the checkpoint has version {facts.get('version')} of a container's",
            "restore it with the savemark that wrote it, or a newer one",
        )
    return facts


class _Held:
    """A container that stands still."""

    def __init__(self, runtime: Runtime, name: str) -> None:
        self.runtime, self.name, self.ended = runtime, name, False

    def end(self) -> None:
        """Its checkpoint is complete: it goes on from there."""
        self.ended = True
        self.runtime.end(self.name)


@contextmanager
def _held(runtime: Runtime, name: str) -> Iterator[_Held]:
    held = _Held(runtime, name)
    command = runtime.release(name)
    guard = subprocess.Popen(
        ["/bin/sh", "-c", GUARD, "savemark-guard", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        runtime.hold(name)
        try:
            yield held
        except BaseException as error:
            if not held.ended:
                _release(command, error)
            raise
        if not held.ended:
            _release(command)
    finally:
        guard.communicate(b"done\n")


def _release(command: list[str], why: BaseException | None = None) -> None:
    done = containers.ask(*command)
    if done.returncode != 0:
        last_line = done.stderr.strip().rpartition("\n")[2]
        message = f"the container stands still: it cannot be released: {last_line}"
        before = f"{why}; and " if why else ""
        raise SavemarkError("failed", before + message, " ".join(command)) from why
