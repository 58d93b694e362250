"""What a place is: a directory or URL that is one checkpoint, or holds several named by time.

A *place of several* (`save --keep N`) holds checkpoints named `20261120T213248.123456Z-savemark`:
the UTC time of the save, then a mark that says whose it is. The order of names is that of time.
Nothing is removed from a place but such checkpoints, and nothing from those but our own files.

`Folder` (folder.py) and `Prefix` (prefix.py) say how it is done in a directory and in a bucket.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Self

from savemark.errors import SavemarkError, refused, usage

NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z-savemark")
MANIFEST = "manifest.json"
Json = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """A checkpoint, complete or damaged, or what is left of a save that was interrupted."""

    name: str
    place: Place
    contents: Json

    @property
    def status(self) -> str:
        """One of `complete`, `damaged`, `interrupted`."""
        checkpoint = self.contents["checkpoint"]
        if checkpoint is None:
            return "interrupted"
        return "damaged" if checkpoint["damage"] else "complete"


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
    def check_exists(self) -> None:
        """Refuse a place that cannot be looked at."""

    @abstractmethod
    def names(self) -> tuple[list[str], list[str]]:
        """Return the names of folders, and of files, in it; none where there is nothing yet."""

    @abstractmethod
    def new(self) -> AbstractContextManager[None]:
        """Make room for a checkpoint; take it away again if the save fails."""

    @abstractmethod
    def locked(self) -> AbstractContextManager[None]:
        """Keep other saves and cleanings out, where that can be."""

    @abstractmethod
    def remove(self) -> bool:
        """Remove the checkpoint; return whether nothing is left."""

    @abstractmethod
    def clean(self, *, older_than_s: float, dry_run: bool) -> list[Json]:
        """Remove what interrupted saves left (or only tell it).

        Each is {name, bytes, abandoned}; what is not `abandoned` may belong to a save that is under
        way, and stays.
        """

    @abstractmethod
    def clear_old(self) -> bool:
        """Remove what an interrupted save left here, if it is known to be over; return whether."""

    @abstractmethod
    def looking(self) -> str:
        """Return the trial for looking only: it writes nothing."""

    def trial(self, options: Mapping[str, object]) -> str:
        """Return the engine's trial for a checkpoint here."""
        given = {name: value for name, value in options.items() if value is not None}
        storage = str(given.get("storage", self.storage))
        if storage in self.instead:
            raise usage(f"storage: {storage} does not fit {self}", self.instead[storage])
        return json.dumps(
            {
                "storage": self.storage,
                **self.defaults,
                **given,
                "workload": "checkpoint",
                "target": str(self),
            }
        )

    def several(self) -> list[Self]:
        """Return the checkpoints of a place of several, oldest first; none if it is none."""
        found = sorted(name for name in self.names()[0] if NAME.fullmatch(name))
        return [self.below(name) for name in found]

    def check_single(self) -> None:
        """Refuse to save one checkpoint where something else is."""
        folders, _ = self.names()
        example = self.below("checkpoint")
        if any(NAME.fullmatch(name) for name in folders):
            raise refused(f"{self} holds several checkpoints", f"add --keep N, or name {example}")
        for name in folders:
            raise self._foreign(name)

    def check_many(self) -> None:
        """Refuse to keep checkpoints where something else is."""
        folders, files = self.names()
        if MANIFEST in files:
            raise refused(
                f"{self} is itself a checkpoint; --keep needs a place of its own",
                f"name another one, {self}-kept for example",
            )
        for name in files + [name for name in folders if not NAME.fullmatch(name)]:
            raise self._foreign(name)

    def _foreign(self, name: str) -> SavemarkError:
        return refused(
            f"{self} is not a checkpoint: it holds {name}. Nothing was written",
            f"name a new or an empty place, {self.below('checkpoint')} for example",
        )

    def another(self) -> Self:
        """Return the place of one more checkpoint, named by the time."""
        return self.below(datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ-savemark"))

    def entries(self) -> list[Entry]:
        """Return the checkpoints here: itself, or those of a place of several, oldest first."""
        self.check_exists()
        own = self._contents()
        if own["checkpoint"] is not None or own["orphans"]:
            return [Entry(self.name, self, own)]
        return [Entry(found.name, found, found._contents()) for found in self.several()]

    def _contents(self) -> Json:
        import savemark._engine as engine

        return dict(json.loads(engine.contents(self.looking())))

    def newest(self) -> Place:
        """Return the checkpoint to restore: this one, or the newest complete one of several."""
        self.check_exists()
        if MANIFEST in self.names()[1]:
            return self
        if not self.several():
            raise usage(
                f"there is no checkpoint in {self}: {MANIFEST} is missing",
                f"an interrupted save leaves none; savemark list {self} says what it left",
            )
        complete = [entry for entry in self.entries() if entry.status == "complete"]
        if not complete:
            raise SavemarkError(
                "corrupt", f"no checkpoint in {self} is complete", f"savemark list {self}"
            )
        return complete[-1].place

    def retain(self, keep: int) -> list[str]:
        """Remove what is older than the `keep` newest complete checkpoints; return the names.

        What killed saves left goes too. A damaged one stays: somebody may want to look at it.
        """
        found = self.entries()
        complete = [entry for entry in found if entry.status == "complete"]
        old = [entry for entry in complete[: -max(keep, 1)] if entry.place.remove()]
        left = [e for e in found if e.status == "interrupted" and e.place.clear_old()]
        return [entry.name for entry in old + left]
