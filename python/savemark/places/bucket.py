"""Prefixes of buckets: the same layout as in directories, without locks.

Two saves to one URL are told apart by the ids in their shards' names, and the last manifest wins.
So nothing is removed that may belong to a save under way: only what has been idle for long.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict
from uuid import uuid4

from savemark.places.place import MARKER, PREFIX, Json, Owner, Place, marked, marker

if TYPE_CHECKING:
    import savemark._engine as engine

# Bytes of a chunk in a bucket, which is one request of a restore: it costs a round trip, no seek.
# In a small state it is less, so that every stream gets some.
CHUNK_BYTES = 4 << 20
# A save that does nothing for so long has been killed. MinIO drops unfinished uploads as late.
IDLE_S = 24 * 3600.0
# The server says when something was written, this machine's clock how long ago that is. Servers
# refuse requests that were signed by a clock which is off by more.
CLOCKS_APART_S = 15 * 60.0


class RequestLimits(TypedDict, total=False):
    """How long a server may take to answer: tries, and seconds of each."""

    retries: int
    timeout: float | str


def request_limits(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a trial's options, in base units; empty where nobody said."""
    import savemark._engine as engine

    names = RequestLimits.__annotations__
    limits = {name: options[name] for name in names if options.get(name) is not None}
    if isinstance(limits.get("timeout"), str):
        limits["timeout"] = engine.parse_span(limits["timeout"])
    return limits


class Bucket(Place):
    """The objects below a URL: s3://bucket/prefix, gs://…, az://…."""

    storage = "object"
    defaults: ClassVar[Mapping[str, object]] = {"chunk_size": CHUNK_BYTES}
    instead: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("null", "memory", "posix", "uring"),
        "a URL goes through object storage; leave --storage out",
    )

    def __init__(self, url: str, limits: Mapping[str, Any] | None = None) -> None:
        self.url = url.rstrip("/")
        self.limits = limits or {}  # of every request

    def __str__(self) -> str:
        """Return the URL."""
        return self.url

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return self.url.rsplit("/", 1)[-1]

    def below(self, name: str) -> Self:
        """Return the prefix `name` below this one."""
        return type(self)(f"{self.url}/{name}", self.limits)

    def names(self) -> tuple[list[str], list[str]]:
        """Return the names of prefixes and of objects directly below it."""
        folders, files = self._objects().list()
        return folders, files

    def _objects(self) -> engine.Bucket:
        import savemark._engine as engine

        return engine.Bucket(self.url, **self.limits)

    @contextmanager
    def workspace(self, run_id: str) -> Iterator[Self]:
        """Make the run's folder, and remove it at the end in every case."""
        made = self.below(f"{PREFIX}{run_id}")
        made._objects().put(MARKER, marker(run_id))
        try:
            yield made
        finally:
            made.remove_owned()

    @contextmanager
    def scratch(self) -> Iterator[str]:
        """Name a folder for another tool, and remove what it has left there."""
        made = self.below(f"tool-{uuid4().hex[:8]}")
        try:
            yield str(made)
        finally:
            made._objects().clear("")

    def owner(self) -> Owner | None:
        """Return who made this folder; None if it is not a run's."""
        if not self.name.startswith(PREFIX):
            return None
        return marked(self.name, self._objects().get(MARKER) or "")

    def remove_owned(self) -> None:
        """Remove this folder, its unfinished uploads included, if it is a run's."""
        if self.owner() is not None:
            # The marker goes last: a removal that is cut short can be finished by the next run.
            self._objects().clear(MARKER)

    def _hints(self, folder: str) -> tuple[str, str]:
        remove = f"aws s3 rm --recursive {self}/{folder}"
        return (
            f"wait until it has finished; if it was killed: {remove}",
            f"name a prefix of its own: savemark run {self}/savemark",
        )

    def remove(self) -> bool:
        """Remove the checkpoint, and what is idle beside it; return whether nothing is left."""
        import savemark._engine as engine

        engine.remove(self.looking())
        return self.clear_old()

    def clear_old(self) -> bool:
        """Remove what a save left that has been idle for a day; return whether nothing is left."""
        self.clean(older_than_s=IDLE_S, dry_run=False)
        return not any(self.names())

    def clean(self, *, older_than_s: float, dry_run: bool) -> list[Json]:
        """Remove what saves left that have been idle for `older_than_s`; tell what is younger."""
        if older_than_s > 0:
            older_than_s += CLOCKS_APART_S
        return list(json.loads(self._objects().clean(older_than_s, dry_run)))

    def uploading(self) -> list[str]:
        """Return the names of folders in which uploads are unfinished; they may hold no object."""
        return list(self._objects().uploading())

    def looking(self) -> str:
        """Return the trial for looking only: it writes nothing."""
        return self.trial(self.limits)
