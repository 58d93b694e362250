"""How buckets become directories: a study's key `mount`, and the commands that it stands for."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from savemark.errors import did_you_mean, usage
from savemark.tools._bucket import endpoint
from savemark.tools.rclone import remote

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
    mounts = [_read(mount) for mount in listed]
    names = [mount["name"] for mount in mounts]
    if len(set(names)) < len(names):
        raise usage("a mount is listed twice", "give each a name of its own")
    return mounts


def _read(mount: object) -> dict[str, str]:
    if isinstance(mount, str):
        if mount not in (NATIVE, *KNOWN):
            known = [NATIVE, *KNOWN]
            raise usage(f"`{mount}` is not a known mount", did_you_mean(mount, known))
        return {"name": mount, "command": KNOWN.get(mount, ""), "unmount": UNMOUNT}
    example = "{name: mine, command: mytool {bucket} {mountpoint}, unmount: umount {mountpoint}}"
    if not isinstance(mount, Mapping):
        raise usage("expected a name or a mapping", example)
    for key in mount:
        if key not in ("name", "command", "unmount"):
            raise usage(
                f"unknown key `{key}`", did_you_mean(str(key), ["name", "command", "unmount"])
            )
    name = str(mount.get("name") or "")
    command = str(mount.get("command") or KNOWN.get(name, ""))
    if not name or "/" in name or not command or "{mountpoint}" not in command:
        raise usage("a mount needs a name, and a command with {mountpoint}", example)
    return {"name": name, "command": command, "unmount": str(mount.get("unmount") or UNMOUNT)}
