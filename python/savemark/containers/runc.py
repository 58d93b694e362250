"""runc: `runc checkpoint` of a container that `runc pause` has frozen."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

from savemark.containers import ask, failed, run
from savemark.errors import refused, usage

NAME = "runc"
Json = dict[str, Any]


def version() -> str:
    """Return its first line."""
    return run("runc", "--version").partition("\n")[0]


def _state(name: str) -> Json | None:
    done = ask("runc", "state", name)
    return dict(json.loads(done.stdout)) if done.returncode == 0 else None


def knows(name: str) -> bool:
    """Whether it runs or is paused."""
    state = _state(name)
    return state is not None and state["status"] in ("running", "paused")


def facts(name: str) -> Json:
    """Return its bundle: the root filesystem is not in the checkpoint."""
    state = _state(name)
    return {"bundle": state["bundle"] if state else None}


def hold(name: str) -> None:
    """Freeze it; CRIU leaves a frozen container frozen."""
    state = _state(name)
    if state and state["status"] == "paused":
        raise refused(f"the container {name} is paused", f"runc resume {name}")
    run("runc", "pause", name)


def release(name: str) -> list[str]:
    """Return how it is thawed."""
    return ["runc", "resume", name]


def checkpoint(name: str, folder: Path) -> None:
    """Write CRIU's images."""
    images, logs = folder / "images", folder.parent / "logs"
    images.mkdir()
    words = ("runc", "checkpoint", "--leave-running", "--image-path", images, "--work-path", logs)
    done = ask(*words, name)
    if done.returncode != 0:
        raise failed(words, done.stderr, logs / "dump.log")


def end(name: str) -> None:
    """Kill it while it is frozen: it never runs again."""
    run("runc", "kill", name, "KILL")
    ask("runc", "resume", name)
    until = time.monotonic() + 10
    while ask("runc", "delete", name).returncode != 0 and time.monotonic() < until:
        time.sleep(0.02)


def restore(name: str, folder: Path, facts: Json, bundle: str | None) -> None:
    """Start it from CRIU's images, with nothing as its input and output."""
    place = bundle or facts["bundle"]
    if place is None or not Path(place).is_dir():
        raise usage(
            f"the container's bundle {place} is not here: its files are not in the checkpoint",
            "put it back where it was, or name it: --bundle DIR",
        )
    if _state(name) is not None:
        raise refused(f"there is a container {name} already", f"runc delete {name}")
    logs = folder.parent / "logs"
    words = ("runc", "restore", "--detach", "--image-path", folder / "images", "--work-path", logs)
    # Its input and output are the container's: nothing, which does not end with this process.
    done = subprocess.run(
        [*map(str, words), "--bundle", place, name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != 0:
        ask("runc", "delete", "--force", name)
        raise failed(words, "", logs / "restore.log")
