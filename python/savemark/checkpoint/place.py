"""What a place is: a directory or URL that is one checkpoint, or holds several that are numbered.

A *place of several* (`save --keep N`) holds checkpoints named
`00000012-20261120T213248.123456Z-savemark`: a number, one more than the greatest there, the UTC
time of the save, and a mark that says whose it is. Their order is that of the numbers: clocks go
back, and differ between machines. Savers that meet in a bucket, which has no locks, may choose the
same number; then the later time is the newer one. Names without a number, of older versions, come
before all others. Nothing is removed from a place but such checkpoints, and nothing from those but
our own files.

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

from savemark.errors import SavemarkError, from_exception, refused, usage

NAME = re.compile(r"(?:(\d{8,})-)?(\d{8}T\d{6}\.\d{6}Z)-savemark", re.ASCII)
MANIFEST = "manifest.json"
Json = dict[str, Any]


def order(name: str) -> tuple[int, str]:
    """Return what the name of one of several checkpoints is ordered by: number, then time."""
    found = NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name} names none of several checkpoints")
    return int(found[1] or 0), found[2]


@dataclass(frozen=True)
class Entry:
    """A checkpoint, complete, damaged or newer, or what is left of a save that was interrupted."""

    name: str
    place: Place
    contents: Json

    @property
    def status(self) -> str:
        """One of `complete`, `damaged`, `newer` (than this savemark reads), `interrupted`."""
        checkpoint = self.contents["checkpoint"]
        if checkpoint is None:
            # A manifest that cannot be known as one of ours may still stand for what is here.
            return "damaged" if MANIFEST in self.contents["foreign"] else "interrupted"
        if checkpoint.get("newer"):
            return "newer"
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
        for name, value in given.items():
            if not isinstance(value, bool | int | float | str):
                raise usage(
                    f"{name}: {value!r} is a {type(value).__name__}", "give text or a number"
                )
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
        found = [name for name in self.names()[0] if NAME.fullmatch(name)]
        return [self.below(name) for name in sorted(found, key=order)]

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
        """Return the place of one more checkpoint, which is the newest of those here."""
        last = max((order(place.name)[0] for place in self.several()), default=0)
        return self.below(f"{last + 1:08}-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-savemark")

    def entries(self) -> list[Entry]:
        """Return the checkpoints here: itself, or those of a place of several, oldest first."""
        self.check_exists()
        own, several = self._contents(), self.several()
        if own["checkpoint"] is not None or (own["orphans"] and not several):
            return [Entry(self.name, self, own)]
        return [Entry(found.name, found, found._contents()) for found in several]

    def inside(self) -> list[Entry]:
        """Return the checkpoints of the places directly in this one, by name."""
        found = []
        for name in sorted(self.names()[0]):
            place = self.below(name)
            if MANIFEST in place.names()[1] or place.several():
                for entry in place.entries():
                    path = name if entry.place is place else f"{name}/{entry.name}"
                    found.append(Entry(path, entry.place, entry.contents))
        return found

    def _contents(self) -> Json:
        import savemark._engine as engine

        return dict(json.loads(engine.contents(self.looking())))

    def newest(self) -> Place:
        """Return the checkpoint to restore: this one, or the newest complete one of several."""
        self.check_exists()
        if MANIFEST in self.names()[1]:
            return self
        if not self.several():
            inside = ", ".join(entry.name for entry in self.inside()[-5:])
            raise usage(
                f"there is no checkpoint in {self}: {MANIFEST} is missing",
                f"name one of those in it: {inside}"
                if inside
                else f"an interrupted save leaves none; savemark list {self} says what it left",
            )
        complete = [entry for entry in self.entries() if entry.status == "complete"]
        if not complete:
            raise SavemarkError(
                "corrupt", f"no checkpoint in {self} is complete", f"savemark list {self}"
            )
        return complete[-1].place

    def retain(self, made: Place, keep: int) -> tuple[list[str], list[str]]:
        """Remove what is older than the `keep` newest complete checkpoints.

        Return the names of what is gone, and why something is not that should be.

        Nothing goes before `made`, which was saved just now, is found complete, and nothing that is
        newer than it: another saver's. What killed saves left goes too. A damaged one stays:
        somebody may want to look at it.
        """
        found = self.entries()
        complete = [entry for entry in found if entry.status == "complete"]
        if made.name not in [entry.name for entry in complete]:
            raise SavemarkError(
                "failed",
                f"{made} was saved, but is not found complete there: nothing older was removed",
                f"savemark list {self}; something else may remove or alter files there",
            )
        surplus = complete[: -max(keep, 1)]
        old = [entry for entry in surplus if order(entry.name) < order(made.name)]
        left = [entry for entry in found if entry.status == "interrupted"]
        gone, notes = [], []
        for entry in old + left:
            try:
                is_gone = entry.place.remove() if entry in old else entry.place.clear_old()
            except Exception as error:
                known = from_exception(error)
                if known is None or known.kind == "interrupted":
                    raise
                notes.append(f"{entry.name} was not removed: {known.message}")
            else:
                gone += [entry.name] if is_gone else []
        return gone, notes
