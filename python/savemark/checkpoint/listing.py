"""A place of several checkpoints (`save --keep N`), or of one.

The several are named `00000012-20261120T213248.123456Z-savemark`: a number, one more than the
greatest there, the UTC time of the save, and a mark that says whose it is. Their order is that of
the numbers: clocks go back, and differ between machines. Savers that meet in a bucket, which has no
locks, may choose the same number; then the later time is the newer one. Names without a number, of
older versions, come before all others. Nothing is removed from a place but such checkpoints, and
nothing from those but our own files.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from savemark.errors import SavemarkError, from_exception, refused, usage
from savemark.places import Bucket, Directory, Place
from savemark.places.place import Json

NAME = re.compile(r"(?:(\d{8,})-)?(\d{8}T\d{6}\.\d{6}Z)-savemark", re.ASCII)
MANIFEST = "manifest.json"


def order(name: str) -> tuple[int, str]:
    """Return what the name of one of several checkpoints is ordered by: number, then time."""
    match = NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name} names none of several checkpoints")
    return int(match[1] or 0), match[2]


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


def numbered(place: Place) -> list[Place]:
    """Return the checkpoints of a place of several, oldest first; none if it is none."""
    names = [name for name in place.names()[0] if NAME.fullmatch(name)]
    return [place.below(name) for name in sorted(names, key=order)]


def check_single(place: Place) -> None:
    """Refuse to save one checkpoint where something else is."""
    folders, _ = place.names()
    example = place.below("checkpoint")
    if any(NAME.fullmatch(name) for name in folders):
        raise refused(f"{place} holds several checkpoints", f"add --keep N, or name {example}")
    for name in folders:
        raise _foreign(place, name)


def check_many(place: Place) -> None:
    """Refuse to keep checkpoints where something else is."""
    folders, files = place.names()
    if MANIFEST in files:
        raise refused(
            f"{place} is itself a checkpoint; --keep needs a place of its own",
            f"name another one, {place}-kept for example",
        )
    for name in files + [name for name in folders if not NAME.fullmatch(name)]:
        raise _foreign(place, name)


def _foreign(place: Place, name: str) -> SavemarkError:
    return refused(
        f"{place} is not a checkpoint: it holds {name}. Nothing was written",
        f"name a new or an empty place, {place.below('checkpoint')} for example",
    )


def another(place: Place) -> Place:
    """Return the place of one more checkpoint, which is the newest of those here."""
    last = max((order(place.name)[0] for place in numbered(place)), default=0)
    return place.below(f"{last + 1:08}-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-savemark")


def entries(place: Place) -> list[Entry]:
    """Return the checkpoints here: itself, or those of a place of several, oldest first."""
    place.check_exists()
    own, several = _contents(place), numbered(place)
    if own["checkpoint"] is not None or (own["orphans"] and not several):
        return [Entry(place.name, place, own)]
    return [_entry(each) for each in several]


def inside(place: Place) -> list[Entry]:
    """Return the checkpoints of the places directly in this one, by name."""
    listed = []
    for name in sorted(place.names()[0]):
        folder = place.below(name)
        if MANIFEST in folder.names()[1] or numbered(folder):
            for entry in entries(folder):
                path = name if entry.place is folder else f"{name}/{entry.name}"
                listed.append(Entry(path, entry.place, entry.contents))
    return listed


def _entry(place: Place) -> Entry:
    return Entry(place.name, place, _contents(place))


def _contents(place: Place) -> Json:
    import savemark._engine as engine

    return dict(json.loads(engine.contents(place.looking())))


def newest(place: Place) -> Place:
    """Return the checkpoint to restore: this one, or the newest complete one of several."""
    place.check_exists()
    if MANIFEST in place.names()[1]:
        return place
    if not numbered(place):
        names = ", ".join(entry.name for entry in inside(place)[-5:])
        raise usage(
            f"there is no checkpoint in {place}: {MANIFEST} is missing",
            f"name one of those in it: {names}"
            if names
            else f"an interrupted save leaves none; savemark list {place} says what it left",
        )
    complete = [entry for entry in entries(place) if entry.status == "complete"]
    if not complete:
        raise SavemarkError(
            "corrupt", f"no checkpoint in {place} is complete", f"savemark list {place}"
        )
    return complete[-1].place


def retain(place: Place, made: Place, keep: int) -> tuple[list[str], list[str]]:
    """Remove what is older than the `keep` newest complete checkpoints.

    Return the names of what is gone, and why something is not that should be.

    Nothing goes before `made`, which was saved just now, is found complete, and nothing that is
    newer than it: another saver's. What killed saves left goes too. A damaged one stays:
    somebody may want to look at it.
    """
    present = entries(place)
    complete = [entry for entry in present if entry.status == "complete"]
    if made.name not in [entry.name for entry in complete]:
        raise SavemarkError(
            "failed",
            f"{made} was saved, but is not found complete there: nothing older was removed",
            f"savemark list {place}; something else may remove or alter files there",
        )
    surplus = complete[: -max(keep, 1)]
    old = [entry for entry in surplus if order(entry.name) < order(made.name)]
    left = [entry for entry in present if entry.status == "interrupted"]
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


def clean(place: Place, *, older_than_s: float, dry_run: bool) -> list[Json]:
    """Remove what interrupted saves into a place left, and interrupted restores beside it.

    Returns what `Place.clean` does. In a directory `older_than_s` does not matter.
    """
    removed, uploading = list[Json](), list[str]()
    if isinstance(place, Directory):
        removed = [_gone(f"{path}/") for path in place.sweep(dry_run)]
        if removed and not place.path.is_dir():
            return removed
        place.check_exists()
    elif isinstance(place, Bucket):
        # A save that was killed early has left uploads alone, and those make no folder.
        uploading = [name for name in place.uploading() if NAME.fullmatch(name)]
    removed += place.clean(older_than_s=older_than_s, dry_run=dry_run)
    names = {*(each.name for each in numbered(place)), *uploading}
    if not names:
        return removed
    with place.locked():
        for name in sorted(names, key=order):
            folder = place.below(name)
            is_empty = isinstance(folder, Directory) and _entry(folder).status == "interrupted"
            cleaned = folder.clean(older_than_s=older_than_s, dry_run=dry_run)
            removed += [{**file, "name": f"{name}/{file['name']}"} for file in cleaned]
            if is_empty:
                removed.append(_gone(f"{name}/"))
                if not dry_run:
                    folder.remove()
    return removed


def _gone(name: str) -> Json:
    return {"name": name, "bytes": 0, "abandoned": True}
