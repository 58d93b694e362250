"""Checkpoints in buckets: the same layout as in directories, without locks.

Two saves to one URL are told apart by the ids in their shards' names, and the last manifest wins.
So nothing is removed that may belong to a save under way: only what has been idle for long.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Self

from savemark.checkpoint.place import NAME, Json, Place
from savemark.errors import usage
from savemark.places import CHUNK_BYTES

# A save that does nothing for so long has been killed. MinIO drops unfinished uploads as late.
IDLE_S = 24 * 3600.0
# The server says when something was written, this machine's clock how long ago that is. Servers
# refuse requests that were signed by a clock which is off by more.
CLOCKS_APART_S = 15 * 60.0


class Prefix(Place):
    """The objects below a URL: s3://bucket/prefix, gs://…, az://…."""

    storage = "object"
    defaults: ClassVar[Mapping[str, object]] = {"chunk_size": CHUNK_BYTES}
    instead: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("null", "memory", "posix", "uring"),
        "a URL goes through object storage; leave --storage out",
    )

    def __init__(self, url: str, patience: Mapping[str, Any] | None = None) -> None:
        self.url = url.rstrip("/")
        self.patience = patience or {}  # options of every request
        if not self.url.partition("://")[2]:
            raise usage(f"{url} names no bucket", "for example s3://bucket/prefix")

    def __str__(self) -> str:
        """Return the URL."""
        return self.url

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return self.url.rsplit("/", 1)[-1]

    def below(self, name: str) -> Self:
        """Return the prefix `name` below this one."""
        return type(self)(f"{self.url}/{name}", self.patience)

    def looking(self) -> str:
        """Return the trial for looking only: it writes nothing."""
        return self.trial(self.patience)

    def _bucket(self) -> Any:
        import savemark._engine as engine

        return engine.Bucket(self.url, **self.patience)

    def check_exists(self) -> None:
        """A prefix is what is below it; a wrong bucket is told by the first request."""

    def names(self) -> tuple[list[str], list[str]]:
        """Return the names of prefixes and of objects directly below it."""
        folders, files = self._bucket().list()
        return folders, files

    @contextmanager
    def new(self) -> Iterator[None]:
        """Do nothing: a prefix is there when something is below it."""
        yield

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Do nothing: a bucket has no locks."""
        yield

    def remove(self) -> bool:
        """Remove the checkpoint, and what is idle beside it; return whether nothing is left."""
        import savemark._engine as engine

        engine.remove(self.looking())
        return self.clear_old()

    def clear_old(self) -> bool:
        """Remove what a save left that has been idle for a day; return whether nothing is left."""
        self._clean_single(IDLE_S, dry_run=False)
        return not any(self.names())

    def clean(self, *, older_than_s: float, dry_run: bool) -> list[Json]:
        """Remove what saves left that have been idle for `older_than_s`; tell what is younger."""
        removed = self._clean_single(older_than_s, dry_run)
        # A save that was killed early has left uploads alone, and those make no folder.
        uploading = [
            self.below(name) for name in self._bucket().uploading() if NAME.fullmatch(name)
        ]
        several = {place.name: place for place in [*self.several(), *uploading]}
        for name, place in sorted(several.items()):
            found = place._clean_single(older_than_s, dry_run)
            removed += [{**file, "name": f"{name}/{file['name']}"} for file in found]
        return removed

    def _clean_single(self, older_than_s: float, dry_run: bool) -> list[Json]:
        if older_than_s > 0:
            older_than_s += CLOCKS_APART_S
        return list(json.loads(self._bucket().clean(older_than_s, dry_run)))
