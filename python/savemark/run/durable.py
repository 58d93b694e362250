"""When what was written through a mount is in the bucket: looked at there, past the mount."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import savemark._engine as engine
from savemark.errors import SavemarkError
from savemark.places.place import MARKER
from savemark.records.evidence import READS, WRITES
from savemark.run.mounts import Supervisor
from savemark.run.target import Target

Json = dict[str, Any]

STEP_S = 0.05
MOST_S = 600.0
PIECE = 8 << 20
COLD = "cold"


class MountedPhases:
    """What is done before and after the phases of a trial on a mounted bucket.

    After a phase that writes it waits until every file is an object of the right size and hash, and
    notes when that was. Before one that reads it mounts anew if its cache is to be cold.
    """

    def __init__(self, supervisor: Supervisor, target: Target, workspace: str, cache: str) -> None:
        assert target.mount is not None
        self.supervisor = supervisor
        self.target = target
        self.folder = Path(workspace)
        below = self.folder.relative_to(target.path)
        self.bucket = f"{target.mount.url}/{below}"
        self.cache = cache
        self.waited: dict[str, int] = {}
        self.remounted: set[str] = set()

    def __call__(self, moment: str, phase: str) -> None:
        """Do what is to be done before or after a phase, outside its time."""
        if moment == "after" and phase in WRITES:
            self.waited[phase] = self._until_stored()
        if moment == "before" and phase in READS and self.cache == COLD:
            self._until_stored()
            self.supervisor.unmount(self.target)
            self.supervisor.mount(self.target)
            self.remounted.add(phase)

    def complete(self, record: Json) -> Json:
        """Add to a record what was seen."""
        for phase in record["phases"]:
            waited = self.waited.get(phase["name"])
            if waited is not None:
                phase["frozen_ns"] = phase["elapsed_ns"]
                phase["durable_ns"] = phase["drained_ns"] = phase["elapsed_ns"] + waited
                phase["past_mount"] = True
                phase["notes"] = [*phase["notes"], "in the bucket, by size and SHA-256"]
            if phase["name"] in READS:
                phase["past_mount"] = phase["name"] in self.remounted
        return record

    def _until_stored(self) -> int:
        """Wait for all files; return how long that took until the last was there, in ns."""
        start = time.monotonic_ns()
        seen = 0
        files = [p for p in self.folder.rglob("*") if p.is_file() and p.name != MARKER]
        for path in files:
            seen = max(seen, self._stored_at_ns(path) - start)
        return seen

    def _stored_at_ns(self, path: Path) -> int:
        """Return when the object of a file was there with the right size, its hash compared."""
        folder, _, name = f"{self.bucket}/{path.relative_to(self.folder)}".rpartition("/")
        bucket, size = engine.Bucket(folder, **self.target.limits), path.stat().st_size
        until = time.monotonic() + MOST_S
        wanted: str | None = None
        while time.monotonic() < until:
            if bucket.size(name) == size:
                seen = time.monotonic_ns()
                wanted = wanted or _digest(size, _of_file(path))
                if _digest(size, lambda at, n: bucket.read(name, at, n)) == wanted:
                    return seen
            time.sleep(STEP_S)
        stored = bucket.size(name)
        have = "is not there" if stored is None else f"has {stored} bytes"
        if stored == size:
            have = "holds other bytes"
        why = f"{folder}/{name} {have} {MOST_S:.0f} s after {size} bytes were written to {path}"
        raise SavemarkError("corrupt", why, "the mount did not bring to the bucket what it took")


def _of_file(path: Path) -> Callable[[int, int], bytes]:
    def read(at: int, count: int) -> bytes:
        with path.open("rb") as file:
            file.seek(at)
            return file.read(count)

    return read


def _digest(size: int, read: Callable[[int, int], bytes]) -> str:
    digest = hashlib.sha256()
    for at in range(0, size, PIECE):
        digest.update(read(at, min(PIECE, size - at)))
    return digest.hexdigest()
