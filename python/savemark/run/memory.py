"""A folder for a tool that copies: data to copy from, and room to copy into.

It is in memory, as the engine's own state is; for the workload `copy` it is on the disk that the
trial names.
"""

from __future__ import annotations

import configparser
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import savemark._engine as engine
from savemark.errors import refused, usage
from savemark.gpus import is_on_gpus
from savemark.places import Directory
from savemark.tools._bucket import total
from savemark.tools.aws import CONFIG
from savemark.tools.job import Job, Step

PLACE = Path("/dev/shm")
PIECE = 4 << 20
KIND = "tool-"  # what the run id of such a folder begins with


@contextmanager
def folder(disk: str | None = None) -> Iterator[str]:
    """Make the folder for the time of one trial; nobody else may look into it.

    Memory that a killed run left is given back first.
    """
    memory = PLACE if PLACE.is_dir() and os.access(PLACE, os.W_OK) else Path(tempfile.gettempdir())
    where = Directory(disk or memory)
    for left in where.stale(KIND):
        with suppress(PermissionError):  # another user's
            left.remove_owned()
    with where.workspace(f"{KIND}{secrets.token_hex(4)}") as made:
        made.path.chmod(0o700)
        yield str(made)


def make_sources(job: Job, steps: Sequence[Step]) -> None:
    """Write the files that are copied from: parts of one state, each with its own bytes."""
    Path(job.incoming).mkdir()
    Path(job.outgoing).mkdir()
    names = next((step.sources for step in steps if step.sources), ())
    restored = any(step.restores for step in steps)
    if not names:
        return
    size = total(job.trial)
    _check_room(job, size * (1 + restored))
    state = job.trial.get("state")
    if is_on_gpus(state):
        job.refuse("state", "it copies files, and has none in a GPU's memory")
    if state is not None:
        shutil.copytree(state, job.outgoing, dirs_exist_ok=True)
        return
    for number, name in enumerate(names):
        start, end = (size * n // len(names) for n in (number, number + 1))
        with (Path(job.outgoing) / name).open("wb") as file:
            for at in range(start, end, PIECE):
                count = min(PIECE, end - at)
                kind, seed = str(job.trial["payload"]), int(job.trial["seed"])
                file.write(engine.payload(kind, seed, at, count))
            if "disk" in job.trial:
                os.fsync(file.fileno())


def _check_room(job: Job, needed: int) -> None:
    filesystem = os.statvfs(job.source)
    if filesystem.f_bavail * filesystem.f_frsize < needed * 1.02:
        free = engine.format_size(filesystem.f_bavail * filesystem.f_frsize >> 20 << 20)
        raise refused(
            f"{job.tool} copies to and from {Path(job.source).parent}, which has {free} free",
            "copy less, or make room there; memory is made larger by: "
            "mount -o remount,size=16G /dev/shm",
        )


def write_aws_config(job: Job, step: Step) -> None:
    """Write the user's own configuration of the AWS CLI with a step's settings in its profile."""
    if not step.aws:
        return
    config = configparser.RawConfigParser()
    own = os.environ.get("AWS_CONFIG_FILE", "~/.aws/config")
    try:
        config.read(Path(own).expanduser(), encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        raise usage(f"{own}: {error}", "mend it: `aws configure list` reads it, too") from None
    profile = os.environ.get("AWS_PROFILE", "default")
    section = profile if profile == "default" else f"profile {profile}"
    if not config.has_section(section):
        config.add_section(section)
    lines = [f"\n{name} = {value}" for name, value in step.aws.items()]
    config.set(section, "s3", "".join(lines))
    with (Path(job.scratch) / CONFIG).open("w", encoding="utf-8") as file:
        config.write(file)
