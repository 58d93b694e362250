"""The compiled engine: JSON text in, JSON text out."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

class EngineError(Exception):
    """What happened and what to do; `kind` decides the exit code."""

    kind: Literal["failed", "usage", "corrupt", "refused", "interrupted"]
    message: str
    hint: str | None

class Engine:
    """Runs trials; keeps its buffers and the state from one trial to the next."""

    def __init__(self) -> None: ...
    def run(
        self,
        trial_json: str,
        progress: Callable[[dict[str, Any]], object] | None = None,
        around: Callable[[str, str], object] | None = None,
    ) -> str:
        """Run one trial and return its record; `progress` is called about ten times a second.

        `around` is called with `before` or `after` and the name of each measured phase, outside its
        time; what it raises ends the trial.
        """
    def prepare(self, trial_json: str) -> str:
        """Lay out what a trial reads or writes over, and leave it; return the phase or null."""

class Bucket:
    """The objects directly below a URL; endpoint and credentials come from the environment."""

    def __init__(self, url: str) -> None: ...
    def put(self, name: str, text: str) -> None:
        """Replace the object by `text`."""
    def get(self, name: str) -> str | None:
        """Return the text of the object, or None."""
    def size(self, name: str) -> int | None:
        """Return the length of the object, or None."""
    def read(self, name: str, offset: int, bytes: int) -> bytes:  # noqa: A002
        """Return so many bytes of the object from `offset` on."""
    def list(self) -> tuple[list[str], list[str]]:
        """Return the names of folders and of objects directly below the URL."""
    def clean(self, older_than_s: float, dry_run: bool) -> str:
        """Remove what saves left that have been idle for so long.

        Return a list of {name, bytes, upload, idle_ns, abandoned}, with what is younger, and stays.
        """
    def uploading(self) -> Sequence[str]:
        """Return the names of folders directly below the URL in which uploads are unfinished."""
    def clear(self, last: str) -> int:
        """Remove all objects below the URL, `last` at the end, and unfinished uploads."""

class Witness:
    """Looks at a directory, the disk below it and the machine, while others move bytes."""

    def __init__(self, directory: str | None = None) -> None: ...
    def conditions(self) -> str:
        """Return what can make figures untrue here, as `conditions` of a record."""
    def filesystem(self) -> str:
        """Return the type of the filesystem; empty where there is none."""
    def begin(self) -> None:
        """Take the counters before."""
    def end(self) -> str:
        """Return what happened since `begin`: {device, machine}, null where nobody tells."""

def evict(files: Sequence[str]) -> None:
    """Write back what is dirty of files, and ask the page cache to forget them."""

def residency(files: Sequence[str]) -> str:
    """Return how much of files is in the page cache, as `cache` of a phase."""

def extents(files: Sequence[str]) -> str:
    """Return whether files have data on the storage, as `extents` of a phase."""

def content(files: Sequence[str]) -> str:
    """Return what a sample of the bytes of files looks like, as `payload` of a phase."""

def payload(kind: str, seed: int, offset: int, bytes: int) -> bytes:  # noqa: A002
    """Return so many bytes of data of a kind, from `offset` on: the same in every trial."""

def version() -> str:
    """Return the engine's version."""

def schema() -> str:
    """Return the JSON Schemas of `common`, `workloads` and `storages`; `codecs`; `payloads`."""

def record_schema() -> str:
    """Return the JSON Schema of a record: what `Engine.run` returns."""

def resolve(trial_json: str) -> str:
    """Return the trial with every default; refuse an unknown key with its path."""

def parse_size(text: str) -> int:
    """Return bytes: `4k` = `4KiB` = 4096; refuse `4kB`."""

def parse_span(text: str) -> float:
    """Return seconds: `2m`, `200ms`, `5`."""

def format_size(size_bytes: int) -> str:
    """Return the shortest exact form: 4096 is `4KiB`."""

def host(target: str | None) -> str:
    """Return the facts about this machine, and about the storage below `target`."""

def features() -> str:
    """Return a list of {name, available, reason}."""

def crash_contracts() -> str:
    """Return a list of {subject, contract, lasts, can_tear}."""

def crash(job_json: str) -> str:
    """Play the crashes of one job; return {job, report}.

    Only in a process of its own, with one thread, that ends after it: its mounts change.
    """

def save_tree(
    trial_json: str, source: str, progress: Callable[[dict[str, Any]], object] | None = None
) -> str:
    """Save a file or a directory of files; return the report."""

def restore_tree(
    trial_json: str, destination: str, progress: Callable[[dict[str, Any]], object] | None = None
) -> str:
    """Restore files below a new or empty directory, all or nothing; return the report."""

def save_process(
    trial_json: str,
    pid: int,
    run_on: bool,
    criu_options: str,
    progress: Callable[[dict[str, Any]], object] | None = None,
) -> str:
    """Save a running process with its descendants, then kill it or let it go on.

    Return the report.
    """

def restore_process(
    trial_json: str, progress: Callable[[dict[str, Any]], object] | None = None
) -> tuple[int, str]:
    """Restore the process that was saved in a place; return its number and the report."""

def verify(trial_json: str, progress: Callable[[dict[str, Any]], object] | None = None) -> str:
    """Read and check every byte; return the report."""

def contents(trial_json: str) -> str:
    """Return {checkpoint, orphans, foreign} of a place, without reading data."""

def clean(trial_json: str, dry_run: bool) -> str:
    """Remove what interrupted saves left; return a list of {name, bytes}."""

def sweep(destination: str, dry_run: bool) -> list[Path]:
    """Remove what killed restores into `destination` left beside it; return the paths."""

def remove(trial_json: str) -> None:
    """Remove the checkpoint of a place, and what interrupted saves left."""

def save_state(
    trial_json: str,
    index: bytes,
    lent: list[tuple[int, Any]],
    data_bytes: int,
    progress: Callable[[dict[str, Any]], object] | None = None,
) -> str:
    """Save an index and contiguous buffers of bytes at their offsets; return the report."""

def read_index(trial_json: str) -> tuple[bytes, str, int] | None:
    """Return (index, id of the save, bytes of its data), or None where files were saved."""

def restore_state(
    trial_json: str,
    id: str,  # noqa: A002
    lent: list[tuple[int, Any]],
    progress: Callable[[dict[str, Any]], object] | None = None,
) -> str:
    """Restore the data of the save `id` into writable buffers at their offsets."""
