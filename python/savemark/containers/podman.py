"""podman: `podman container checkpoint --export`, which stops the container and keeps its state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from savemark.containers import ask, run

NAME = "podman"
ARCHIVE = "checkpoint.tar"
STATUS = ("podman", "container", "inspect", "--format", "{{.State.Status}}")
GO_ON = f'[ "$({" ".join(STATUS)} "$1")" = running ] || podman container restore "$1"'
Json = dict[str, Any]


def version() -> str:
    """Return its first line."""
    return run("podman", "--version").partition("\n")[0]


def knows(name: str) -> bool:
    """Whether it runs."""
    done = ask(*STATUS, name)
    return done.returncode == 0 and done.stdout.strip() == "running"


def facts(_name: str) -> Json:
    """Return nothing: the archive says all."""
    return {}


def hold(_name: str) -> None:
    """Do nothing: the checkpoint itself stops it."""


def release(name: str) -> list[str]:
    """Return how it goes on, if it was stopped, from the checkpoint that podman has kept."""
    return ["/bin/sh", "-c", GO_ON, "podman", name]


def checkpoint(name: str, folder: Path) -> None:
    """Write podman's archive; the container is stopped, and podman keeps what it needs to go on."""
    archive = folder / ARCHIVE
    words = ("podman", "container", "checkpoint", "--keep", "--compress", "none")
    run(*words, "--export", archive, name)


def end(name: str) -> None:
    """Remove what is stopped."""
    run("podman", "rm", "--force", name)


def restore(name: str, folder: Path, _facts: Json, _bundle: str | None) -> None:
    """Make it again from the archive, under the name that was asked for."""
    run("podman", "container", "restore", "--import", folder / ARCHIVE, "--name", name)
