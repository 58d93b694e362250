"""Buckets mounted as directories for the time of a run: by a tool that is known, or by any command.

A supervisor (`supervisor.py`) holds the mounts. It takes them down when the run ends, even if that
is by kill -9; what a killed supervisor leaves, the next run that mounts clears away (`sweep`).

All of it is in one folder of the run, which has the marker of a workspace (`workspace.py`). The run
and its supervisor hold the marker's lock: so a folder whose lock is free belongs to nobody.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from savemark import capture
from savemark.errors import SavemarkError, did_you_mean, usage
from savemark.run import workspace
from savemark.run.removal import is_mounted
from savemark.run.supervisor import BUSY_S
from savemark.run.target import Target
from savemark.tools.commands._bucket import endpoint
from savemark.tools.commands.rclone import remote

KIND = "mounts-"  # what the run id of such a folder begins with
POINT = "mount"
NATIVE = "none"  # not mounted: the bucket itself
UNMOUNT = "fusermount3 -u {mountpoint}"
# {bucket}, {prefix}, {url}, {mountpoint}, {cache}; {remote} is the bucket as rclone names it, and
# {endpoint?TEXT} is TEXT, with {endpoint} in it, where the environment names a server.
KNOWN = {
    "rclone": "rclone mount {remote} {mountpoint} --vfs-cache-mode writes --cache-dir {cache}",
    "s3fs": "s3fs {bucket}:/{prefix} {mountpoint} -f -o use_cache={cache}"
    "{endpoint? -o url={endpoint} -o use_path_request_style}",
    "mountpoint-s3": "mount-s3 {bucket} {mountpoint} --foreground --prefix {prefix}/ "
    "--allow-delete --allow-overwrite{endpoint? --endpoint-url {endpoint} --force-path-style}",
    "goofys": "goofys -f{endpoint? --endpoint {endpoint}} {bucket}:{prefix} {mountpoint}",
}


@dataclass(frozen=True)
class Mount:
    """How a bucket becomes a directory. Commands are words with {placeholders}, no shell."""

    name: str
    command: str
    unmount: str = UNMOUNT
    url: str = ""

    def words(self, text: str, point: Path, cache: Path) -> list[str]:
        """Return a command with its placeholders filled in."""
        bucket, _, prefix = self.url.split("://", 1)[1].partition("/")
        server = endpoint()
        start, mark, rest = text.partition("{endpoint?")
        if mark:
            optional, end = _balanced(rest)
            text = start + (optional if server else "") + end
        filled = {
            "{bucket}": bucket,
            "{prefix}": prefix,
            "{url}": self.url,
            "{mountpoint}": str(point),
            "{cache}": str(cache),
            "{remote}": remote(self.url),
            "{endpoint}": server or "",
        }
        return [_filled(word, filled) for word in shlex.split(text)]


def _balanced(text: str) -> tuple[str, str]:
    """Split at the brace that closes the optional part, which has placeholders of its own."""
    depth = 1
    for place, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if not depth:
            return text[:place], text[place + 1 :]
    raise usage(f"mount: a brace is missing in {{endpoint?{text}", "{endpoint? -o url={endpoint}}")


def _filled(word: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(name, value)
    return word


def parse(listed: object) -> list[dict[str, str]]:
    """Read the key `mount` of a study: names, and mappings of name, command and unmount."""
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
        raise usage("expected a list of mounts", "mount: [none, rclone]")
    found = [_read(each) for each in listed]
    names = [each["name"] for each in found]
    if len(set(names)) < len(names):
        raise usage("a mount is listed twice", "give each a name of its own")
    return found


def _read(each: object) -> dict[str, str]:
    if isinstance(each, str):
        if each not in (NATIVE, *KNOWN):
            known = [NATIVE, *KNOWN]
            raise usage(f"`{each}` is not a known mount", did_you_mean(each, known))
        return {"name": each, "command": KNOWN.get(each, ""), "unmount": UNMOUNT}
    example = "{name: mine, command: mytool {bucket} {mountpoint}, unmount: umount {mountpoint}}"
    if not isinstance(each, Mapping):
        raise usage("expected a name or a mapping", example)
    for key in each:
        if key not in ("name", "command", "unmount"):
            raise usage(
                f"unknown key `{key}`", did_you_mean(str(key), ["name", "command", "unmount"])
            )
    name = str(each.get("name") or "")
    command = str(each.get("command") or KNOWN.get(name, ""))
    if not name or "/" in name or not command or "{mountpoint}" not in command:
        raise usage("a mount needs a name, and a command with {mountpoint}", example)
    return {"name": name, "command": command, "unmount": str(each.get("unmount") or UNMOUNT)}


def expand(targets: Sequence[Target], mounts: Sequence[Mapping[str, str]]) -> list[Target]:
    """Return the targets with every bucket once for each mount, at a mountpoint not made yet."""
    if not mounts:
        return list(targets)
    if not any(target.url for target in targets):
        raise usage(
            "this study mounts buckets, and no target is one", "savemark run … s3://bucket/x"
        )
    several = sum(target.url is not None for target in targets) > 1
    found = []
    for target in targets:
        for each in mounts if target.url else ():
            label = f"{target.label}-{each['name']}" if several else each["name"]
            if each["name"] == NATIVE:
                found.append(replace(target, label=label if several else target.label))
            else:
                mount = Mount(**each, url=str(target.url))
                found.append(Target(label, _point(label), mount=mount))
        if not target.url:
            found.append(target)
    return found


def again(label: str, said: Mapping[str, str]) -> Target:
    """Return a target that an earlier run mounted, at a mountpoint of this one."""
    return Target(label, _point(label), mount=Mount(**said))


def _point(label: str) -> Path:
    """Return the mountpoint of a label in this process; its folder is made when it is mounted.

    The digest tells labels apart that are alike but for what a file's name should not hold.
    """
    safe = "".join(x if x.isascii() and x.isalnum() else "_" for x in label[:40])
    digest = hashlib.sha256(label.encode()).hexdigest()[:8]
    return (
        Path(tempfile.gettempdir()) / f"{workspace.PREFIX}{_run_id()}" / f"{safe}-{digest}" / POINT
    )


@cache
def _run_id() -> str:
    return f"{KIND}{secrets.token_hex(8)}"


class Supervisor:
    """The process that holds the mounts, and what it is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._mounts = folder, 0
        self._lock = workspace.make(folder, folder.name.removeprefix(workspace.PREFIX), 0o700)
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
            workspace.remove(folder)
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
    for folder in workspace.stale(Path(tempfile.gettempdir()), KIND):
        with contextlib.suppress(OSError), workspace.claimed(folder) as ours:
            if ours and folder.lstat().st_uid == os.getuid():
                _take_down(folder)


def _take_down(folder: Path) -> None:
    """Unmount what a supervisor has mounted in its folder, and remove that with its marker."""
    # Not by a pattern that ends with POINT: that would ask a mount that may be dead.
    for point in [each / POINT for each in folder.iterdir()] if folder.is_dir() else []:
        for words in (["fusermount3", "-uz"], ["umount", "-l"]):
            if is_mounted(point):
                with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                    capture.run([*words, str(point)], limit_s=BUSY_S)
    workspace.remove(folder)
