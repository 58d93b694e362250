"""The places to measure: which arguments name one, and which places are refused."""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from savemark.errors import refused, usage
from savemark.places import Bucket, Directory, Place
from savemark.places.bucket import request_limits
from savemark.places.place import PREFIX
from savemark.study.mounts import Mount

if TYPE_CHECKING:
    from savemark.study.model import Study

# Of a folder with mounts: what its run id begins with, and the name of each mountpoint in it.
KIND, POINT = "mounts-", "mount"


@dataclass(frozen=True)
class Target:
    """A directory, or the URL of a bucket, to measure and the name it goes by."""

    label: str
    path: Path
    url: str | None = None  # then `path` says nothing
    mount: Mount | None = None  # then `path` is where a bucket is mounted for the time of the run
    # How long a bucket may take to answer when it is looked at; not part of what it is.
    limits: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def at(cls, label: str, place: str) -> Target:
        """Return the target at `place`, as `name` gives it."""
        if "://" in place:
            return cls(label, Path(), place.rstrip("/"))
        return cls(label, Path(place))

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Target:
        """Return a target as `run.json` has it; one that was mounted will be mounted anew."""
        if "mount" not in kept:
            return cls.at(kept["label"], kept["target"])
        label = kept["label"]
        return cls(label, mountpoint(label), mount=Mount(**kept["mount"]))

    @property
    def name(self) -> str:
        """The directory or the URL."""
        return self.url or str(self.path)

    @property
    def place(self) -> Place:
        """Where the run's folder is: below a mount it is marked in the bucket."""
        url = self.mount.url if self.mount else self.url
        return Bucket(url, self.limits) if url else Directory(self.path)

    @property
    def directory(self) -> str | None:
        """The directory, for facts about what is below it."""
        return None if self.url else str(self.path)

    def as_json(self) -> dict[str, Any]:
        """Return the form kept in `run.json`."""
        kept: dict[str, Any] = {"label": self.label, "target": self.name}
        return {**kept, "mount": asdict(self.mount)} if self.mount else kept

    def free_bytes(self) -> int | None:
        """Return the bytes that this user may still write here; None where there is no limit."""
        if self.url or not self.path.is_dir():  # on another machine, or mounted later
            return None
        filesystem = os.statvfs(self.path)
        return filesystem.f_bavail * filesystem.f_frsize


def mountpoint(label: str) -> Path:
    """Return the mountpoint of a label in this process; its folder is made when it is mounted.

    The digest tells labels apart that are alike but for what a file's name should not hold.
    """
    safe = "".join(x if x.isascii() and x.isalnum() else "_" for x in label[:40])
    digest = hashlib.sha256(label.encode()).hexdigest()[:8]
    return Path(tempfile.gettempdir()) / f"{PREFIX}{_mounts_id()}" / f"{safe}-{digest}" / POINT


@cache
def _mounts_id() -> str:
    return f"{KIND}{secrets.token_hex(8)}"


def limited(targets: Sequence[Target], study: Study) -> list[Target]:
    """Return the targets with the time limits of requests that the trials of the study have."""
    limits = request_limits({**study.defaults, **study.sections()[0].trial})
    return [replace(target, limits=limits) for target in targets]


def parse(arguments: tuple[str, ...]) -> tuple[str | None, list[Target]]:
    """Split `[STUDY] [LABEL=]TARGET…` into the study's name and the targets."""
    study: str | None = None
    targets: list[Target] = []
    for argument in arguments:
        if _is_target(argument):
            targets.append(_target(argument))
        elif study is None and not targets:
            study = argument
        else:
            raise usage(
                f"`{argument}` is not a directory",
                "a study stands first and alone; for a directory write "
                f"./{argument}, and create it first",
            )
    labels = [target.label for target in targets]
    for label in labels:
        if labels.count(label) > 1:
            raise usage(f"two targets are called `{label}`", f"name them: a={label} b=…")
    return study, targets


def _is_target(argument: str) -> bool:
    is_study_file = argument.endswith((".yaml", ".yml")) and Path(argument).is_file()
    marked = any(mark in argument for mark in ("/", "=", "://"))
    return not is_study_file and (marked or Path(argument).is_dir())


def _target(argument: str) -> Target:
    label, equals, rest = argument.partition("=")
    if not equals or "/" in label:
        label, rest = argument, argument
    if not label or not rest:
        raise usage(f"`{argument}` is not LABEL=TARGET", "for example: nvme=/mnt/scratch")
    if "://" in rest:
        return Target.at(label, rest)
    # Not resolve(): a path is shown as it was given, symlinks and all.
    return Target(label, Path(os.path.abspath(rest)))  # noqa: PTH100


@contextmanager
def open_workspace(target: Target, run_id: str) -> Iterator[str]:
    """Make the run's folder in the target for the time of the context; yield its path or URL."""
    with target.place.workspace(run_id) as folder:
        yield _below_mount(target, folder.name) if target.mount else str(folder)
    _forget(target, folder.name)


def remove(target: Target, folder: Place) -> None:
    """Remove a run's folder in the target."""
    folder.remove_owned()
    _forget(target, folder.name)


def _below_mount(target: Target, folder: str) -> str:
    """Return the directory that a folder of the bucket is; a mount may have to be told of it."""
    # Marked in the bucket: an open file would keep the mount from being taken down.
    path = target.path / folder
    path.mkdir(exist_ok=True)
    return str(path)


def _forget(target: Target, folder: str) -> None:
    """Remove what some mounts keep for a directory; of a mount that has cached it, nothing is."""
    if target.mount:
        with suppress(OSError):
            (target.path / folder).rmdir()


def check_room(target: Target, needed_bytes: float) -> None:
    """Refuse a place without room for what a run holds at one time."""
    import savemark._engine as engine

    mib = 1 << 20
    # Manifest, alignment and the filesystem's own needs come on top of the data.
    needed = int(needed_bytes * 1.02) + 16 * mib
    free = target.free_bytes()
    if free is not None and free < needed:
        raise refused(
            f"{target.name} has {engine.format_size(free // mib * mib)} free; "
            f"this study needs {engine.format_size(-(-needed // mib) * mib)} at one time",
            "free some space, or use a smaller --size (IO500: --block-size and --segments)",
        )
