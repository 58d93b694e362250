"""What a place is: a directory, or a prefix of a bucket.

A run owns the folder `savemark-<run id>` in it, which has a marker file; a checkpoint owns the
files that its manifest names. Nothing else is ever removed, and nothing of a run that lives.
"""

from __future__ import annotations

import json
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Self

from savemark.errors import refused, usage

Json = dict[str, Any]
MARKER = ".savemark"
PREFIX = "savemark-"


@dataclass(frozen=True)
class Owner:
    """Who made a folder of ours, and whether that process still lives."""

    run_id: str
    pid: int
    host: str
    alive: bool


class Place(ABC):
    """A directory or a prefix of a bucket. `str()` of it is how the user named it."""

    # The storage it goes through if the user does not say.
    storage: str
    # Options of the engine that are another default here than elsewhere.
    defaults: ClassVar[Mapping[str, object]] = {}
    # Storages that cannot be used here, and what can.
    instead: ClassVar[Mapping[str, str]]

    @property
    @abstractmethod
    def name(self) -> str:
        """The last part of the path."""

    @abstractmethod
    def below(self, name: str) -> Self:
        """Return the place `name` in this one."""

    @abstractmethod
    def names(self) -> tuple[list[str], list[str]]:
        """Return the names of folders, and of files, in it; none where there is nothing yet."""

    # The folder of a run.

    def check_usable(self) -> None:  # noqa: B027 - in a bucket there is nothing to look at
        """Refuse a place that cannot be measured; a wrong bucket shows at the first request."""

    @abstractmethod
    def workspace(self, run_id: str) -> AbstractContextManager[Self]:
        """Make the run's folder, hold its lock, and remove it at the end in every case."""

    @abstractmethod
    def scratch(self) -> AbstractContextManager[str]:
        """Make a folder for another tool, and remove it with all that the tool has left there."""

    @abstractmethod
    def owner(self) -> Owner | None:
        """Return who made this folder; None if it is not a run's."""

    @abstractmethod
    def remove_owned(self) -> None:
        """Remove this folder with all it holds if it is a run's; anything else is left alone."""

    @abstractmethod
    def _hints(self, folder: str) -> tuple[str, str]:
        """Return what to do while the run of `folder` lives, and where something else is."""

    def leftovers(self) -> list[Self]:
        """Return the folders that killed runs left; refuse a place that holds anything else."""
        self.check_usable()
        folders, foreign = self.names()
        left = []
        for folder in map(self.below, sorted(folders)):
            owner = folder.owner()
            if owner is None:
                foreign.append(folder.name)
            elif owner.alive:
                raise refused(
                    f"another savemark run (pid {owner.pid} on {owner.host}) is using {self}",
                    self._hints(folder.name)[0],
                )
            else:
                left.append(folder)
        if foreign:
            message = f"{self} is not empty (it holds {min(foreign)})"
            raise refused(message, self._hints("")[1])
        return left

    # A checkpoint.

    def check_exists(self) -> None:  # noqa: B027 - nor here
        """Refuse a place that cannot be looked at; a prefix is what is below it."""

    @contextmanager
    def new(self) -> Iterator[None]:
        """Make room for a checkpoint; take it away again if the save fails."""
        yield

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other saves and cleanings out, where there are locks."""
        yield

    @abstractmethod
    def remove(self) -> bool:
        """Remove the checkpoint's own files; return whether nothing is left."""

    @abstractmethod
    def clear_old(self) -> bool:
        """Remove what an interrupted save left, if it is known to be over; return as `remove`."""

    @abstractmethod
    def clean(self, *, older_than_s: float, dry_run: bool) -> list[Json]:
        """Remove what interrupted saves left (or only tell it).

        Each is {name, bytes, abandoned}; what is not `abandoned` may belong to a save that is under
        way, and stays.
        """

    @abstractmethod
    def looking(self) -> str:
        """Return the trial for looking only: it writes nothing."""

    def trial(self, options: Mapping[str, object]) -> str:
        """Return the engine's trial for a checkpoint here."""
        given = {name: value for name, value in options.items() if value is not None}
        storage = str(given.get("storage", self.storage))
        if storage in self.instead:
            raise usage(f"storage: {storage} does not fit {self}", self.instead[storage])
        for name, value in given.items():
            if not isinstance(value, bool | int | float | str):
                raise usage(
                    f"{name}: {value!r} is a {type(value).__name__}", "give text or a number"
                )
        fixed = {"workload": "checkpoint", "target": str(self)}
        return json.dumps({"storage": self.storage, **self.defaults, **given, **fixed})


def marker(run_id: str) -> str:
    """Return what the marker of a run's folder says."""
    started = datetime.now().astimezone().isoformat(timespec="seconds")
    made_by = {"run_id": run_id, "pid": os.getpid(), "host": socket.gethostname()}
    return json.dumps({**made_by, "started_at": started})


def marked(folder: str, text: str | bytes) -> Owner | None:
    """Return the owner of `folder` by the text of its marker; None where that is not one of it.

    Whether it lives is judged by the process id; a run on another host counts as alive.
    """
    try:
        fields = json.loads(text)
        run_id, pid, host = str(fields["run_id"]), int(fields["pid"]), str(fields["host"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    if folder != f"{PREFIX}{run_id}":
        return None
    return Owner(run_id, pid, host, host != socket.gethostname() or Path(f"/proc/{pid}").exists())
