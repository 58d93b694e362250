"""Buckets mounted as directories for the time of a run: by a tool that is known, or by any command.

A supervisor (`supervisor.py`) holds the mounts. It takes them down when the run ends, even if that
is by kill -9; what a killed supervisor leaves, the next run that mounts clears away (`sweep`).

All of it is in one folder of the run, which has the marker of a run's folder (`places/`). The run
and its supervisor hold the marker's lock: so a folder whose lock is free belongs to nobody.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from savemark import capture
from savemark.errors import SavemarkError, usage
from savemark.places import Directory
from savemark.places.removal import is_mounted
from savemark.run.supervisor import BUSY_S
from savemark.run.target import KIND, POINT, Target, mountpoint
from savemark.study.mounts import NATIVE, Mount


def expand(targets: Sequence[Target], mounts: Sequence[Mapping[str, str]]) -> list[Target]:
    """Return the targets with every bucket once for each mount, at a mountpoint not made yet."""
    if not mounts:
        return list(targets)
    if not any(target.url for target in targets):
        raise usage(
            "this study mounts buckets, and no target is one", "savemark run … s3://bucket/x"
        )
    several = sum(target.url is not None for target in targets) > 1
    expanded = []
    for target in targets:
        for known in mounts if target.url else ():
            label = f"{target.label}-{known['name']}" if several else known["name"]
            if known["name"] == NATIVE:
                expanded.append(replace(target, label=label if several else target.label))
            else:
                mount = Mount(**known, url=str(target.url))
                expanded.append(Target(label, mountpoint(label), mount=mount))
        if not target.url:
            expanded.append(target)
    return expanded


class Supervisor:
    """The process that holds the mounts, and what it is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._mounts = folder, 0
        self._lock = Directory(folder).make(0o700)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "savemark.run.supervisor", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
                pass_fds=[self._lock],
            )
        except BaseException:
            Directory(folder).remove_owned()
            os.close(self._lock)
            raise

    def mount(self, target: Target) -> None:
        """Mount the bucket of a target at its path."""
        mount = target.mount
        assert mount is not None
        cache = target.path.parent / "cache"
        words = mount.words(mount.command, target.path, cache)
        if shutil.which(words[0]) is None:
            raise usage(
                f"{words[0]} is not on PATH", f"install it, or take {mount.name} out of `mount`"
            )
        undo = mount.words(mount.unmount, target.path, cache)
        point = {"mountpoint": str(target.path), "cache": str(cache)}
        self._mounts += 1
        self._ask({"do": "mount", "command": words, "unmount": undo, **point}, mount.name)

    def unmount(self, target: Target) -> None:
        """Take it down, its cache as well."""
        assert target.mount is not None
        self._ask({"do": "unmount", "mountpoint": str(target.path)}, target.mount.name)

    def close(self) -> None:
        """Take down everything; raises where something stays mounted."""
        assert self._process.stdin
        assert self._process.stdout
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(BUSY_S * max(1, self._mounts))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        try:
            _take_down(self.folder)  # what is left where somebody has killed it
        finally:
            os.close(self._lock)

    def _ask(self, request: dict[str, Any], name: str) -> None:
        assert self._process.stdin
        answer: dict[str, Any] = {}
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._answer() or "{}")
        if not answer.get("ok"):
            why = answer.get("error", "the process that holds the mounts has ended")
            raise SavemarkError("failed", f"mount {name}: {why}", "try its command by hand")

    def _answer(self) -> str:
        assert self._process.stdout
        ready = select.poll()
        ready.register(self._process.stdout, select.POLLIN)
        if not ready.poll(BUSY_S * 1000):
            why = f"the process that holds the mounts has not answered in {BUSY_S:.0f} s"
            return json.dumps({"ok": False, "error": why})
        return self._process.stdout.readline()


@contextmanager
def mounted(targets: Sequence[Target]) -> Iterator[Supervisor | None]:
    """Mount all that is to be mounted for the time of the context."""
    wanted = [target for target in targets if target.mount]
    if not wanted:
        yield None
        return
    sweep()
    supervisor = Supervisor(wanted[0].path.parent.parent)
    try:
        for target in wanted:
            supervisor.mount(target)
        yield supervisor
    finally:
        supervisor.close()


def sweep() -> None:
    """Take down what killed supervisors of this user left; of what cannot be, nothing is removed.

    One that lives, or whose run lives, holds its lock, and does it itself.
    """
    for folder in Directory(tempfile.gettempdir()).stale(KIND):
        with contextlib.suppress(OSError), folder.claimed() as ours:
            if ours and folder.path.lstat().st_uid == os.getuid():
                _take_down(folder.path)


def _take_down(folder: Path) -> None:
    """Unmount what a supervisor has mounted in its folder, and remove that with its marker."""
    # Not by a pattern that ends with POINT: that would ask a mount that may be dead.
    for point in [each / POINT for each in folder.iterdir()] if folder.is_dir() else []:
        for words in (["fusermount3", "-uz"], ["umount", "-l"]):
            if is_mounted(point):
                with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                    capture.run([*words, str(point)], limit_s=BUSY_S)
    Directory(folder).remove_owned()
