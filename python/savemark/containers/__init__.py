"""Containers, saved and restored by their own runtimes: one file per runtime.

A runtime writes its checkpoint (CRIU's images) into a folder; the engine saves that folder as it
saves any files, and brings it back verified. A runtime is a module with `NAME` and these functions:

* `version()`: as it says itself; `knows(name)`: whether there is such a container.
* `hold(name)` stops it, `release(name)` is the command that lets it go on; from `hold` on it stands
  still, so nothing happens after its checkpoint that the checkpoint does not know.
* `checkpoint(name, folder)` writes the checkpoint, and leaves it held.
* `facts(name)`: what a restore needs to know beside the folder.
* `end(name)` kills and removes it.
* `restore(name, folder, facts, bundle)` starts it from the folder.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
from pathlib import Path
from typing import Any, Protocol, cast

from savemark import capture
from savemark.errors import SavemarkError, refused, usage

RUNTIMES = ("runc", "podman")
Json = dict[str, Any]


class Runtime(Protocol):
    """What each file of this folder is."""

    NAME: str

    def version(self) -> str:
        """Return what it says of itself."""

    def knows(self, name: str) -> bool:
        """Whether there is such a container."""

    def facts(self, name: str) -> Json:
        """Return what a restore needs to know."""

    def hold(self, name: str) -> None:
        """Let it stand still."""

    def release(self, name: str) -> list[str]:
        """Return the command that lets it go on."""

    def checkpoint(self, name: str, folder: Path) -> None:
        """Write its checkpoint into an empty folder."""

    def end(self, name: str) -> None:
        """Kill and remove it."""

    def restore(self, name: str, folder: Path, facts: Json, bundle: str | None) -> None:
        """Start it from the folder."""


def runtime(name: str) -> Runtime:
    """Return the runtime of this name; refuse one that is not installed."""
    if name not in RUNTIMES:
        raise usage(f"the runtime `{name}` is not known", f"one of: {', '.join(RUNTIMES)}")
    if shutil.which(name) is None:
        raise refused(f"{name} is not installed: there is no `{name}` on PATH", f"install {name}")
    return cast(Runtime, importlib.import_module(f"{__name__}.{name}"))


def find(text: str) -> tuple[Runtime, str]:
    """Return the runtime and the name of `[RUNTIME:]NAME`; without a runtime, whoever knows it."""
    before, colon, name = text.partition(":")
    if colon:
        candidates = [runtime(before)]
    else:
        name, here = text, [each for each in RUNTIMES if shutil.which(each)]
        if not here:
            raise refused("neither runc nor podman is installed", "install the container's runtime")
        candidates = [runtime(each) for each in here]
    running = [each for each in candidates if each.knows(name)]
    if not running:
        tried = ", ".join(each.NAME for each in candidates)
        raise usage(
            f"there is no container {name} (asked: {tried})", "see `runc list`, `podman ps`"
        )
    if len(running) > 1:
        raise usage(f"runc and podman both know {name}", f"say which: {running[0].NAME}:{name}")
    return running[0], name


def run(*words: str | Path) -> str:
    """Return what a runtime prints; its error says why it failed."""
    done = ask(*words)
    if done.returncode != 0:
        raise failed(words, done.stderr)
    return done.stdout


def ask(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a runtime; whether it failed is for the caller to see."""
    return capture.run([str(word) for word in words])


def failed(words: tuple[str | Path, ...], said: str, log: Path | None = None) -> SavemarkError:
    """Return the error of a command, with the first error in CRIU's log where there is one."""
    command = " ".join(str(word) for word in words[:3])
    reason = (log and _first_error(log)) or said.strip().rpartition("\n")[2] or "it says nothing"
    hint = "docs/processes.md tells what CRIU can save"
    if "iptables" in reason or "network" in reason.lower():
        hint = (
            "install iptables, with which CRIU stops the container's network;"
            " or a line `network-lock skip` in /etc/criu/runc.conf"
        )
    return SavemarkError("failed", f"{command} failed: {reason}", hint)


def _first_error(log: Path) -> str | None:
    if not log.exists():
        return None
    with log.open(errors="replace") as lines:
        errors = (line for line in lines if "Error (" in line and "rlimit:" not in line)
        return next((line.partition("): ")[2].rstrip("\n") for line in errors), None)
