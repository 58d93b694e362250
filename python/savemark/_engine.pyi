"""The compiled engine: JSON text in, JSON text out."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

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
        placement: str | None = None,
        meet: Callable[[str, list[int], tuple[str, str, str | None] | None], list[int]]
        | None = None,
        hall: Hall | None = None,
    ) -> str:
        """Run one trial and return its record; `progress` is called about ten times a second.

        `around` is called with `before` or `after` and the name of each measured phase, outside its
        time; what it raises ends the trial.

        Among other ranks `placement` (JSON: rank, ranks, first_here, nodes, per_node) says which
        one this is. `meet` is called where all ranks meet, with the name of the place, numbers, and
        why this rank goes no further, if so (kind, message, hint); it returns the numbers of all,
        rank after rank. What it raises ends the trial: some rank has failed. The ranks of a node
        that have a `hall` meet there, and by `meet` where that is not enough: one has failed.
        """
    def prepare(self, trial_json: str) -> str:
        """Lay out what a trial reads or writes over, and leave it; return the phase or null."""

class Crew(Protocol):
    """What a hall calls."""

    def beyond(self, at: str, numbers: list[int], apart: bool) -> list[int] | None:
        """Meet the other nodes for all ranks of this one; None where all must meet by `meet`."""
    def late(self, limit_s: float) -> None:
        """Somebody has not come."""
    def failing(self, kind: str) -> None:
        """This rank has failed, and goes to its last meeting."""

class Hall:
    """Memory in which the ranks of one node meet; gone with the last of them."""

    def __init__(self, seats: int, ranks: int, cores: int) -> None:
        """For `seats` ranks of this node, of `ranks` in all, that may run on `cores`.

        Whoever makes it has the first seat. OSError where there can be none.
        """
    @staticmethod
    def join(address: tuple[int, int, str], seat: int, seats: int, ranks: int, cores: int) -> Hall:
        """Return the same hall, seen from another seat; OSError where it cannot be seen."""
    def address(self) -> tuple[int, int, str]:
        """Return how the others find it."""
    def begin(self, seats: int, patience_s: float, times: float, several: bool, crew: Crew) -> None:
        """Begin a trial of those with the first seats, on one or on `several` nodes.

        A meeting is waited for `patience_s` and so many `times` the time since the last one.
        """
    def place(self) -> str:
        """Return where this rank was seen last."""
    def say(self, place: str) -> None:
        """Say where this rank is, apart from meetings."""
    def since_met_s(self) -> float:
        """Return the seconds since this rank met the others, or since the trial began."""
    def left_ns(self) -> list[tuple[str, int]]:
        """Return when this rank left the start of each phase."""
    def meet(
        self,
        at: str,
        numbers: list[int],
        failure: tuple[str, str, str | None] | None,
        others: Callable[[str, list[int], tuple[str, str, str | None] | None], list[int]],
    ) -> list[int]:
        """Meet the others as the engine does, by `others` where the hall is not enough."""
    def leave(self) -> None:
        """Wait for nobody any more."""

class Bucket:
    """The objects directly below a URL; endpoint and credentials come from the environment."""

    def __init__(
        self, url: str, *, retries: int | None = None, timeout: float | None = None
    ) -> None:
        """Open the URL; `timeout`, in seconds, is of one request. No request is sent."""
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

def endpoint(scheme: str) -> str | None:
    """Return the URL of the server that the environment names for buckets of `scheme`, if it does.

    EngineError (usage) where that is no URL of a server, or holds credentials.
    """

def version() -> str:
    """Return the engine's version."""

def schema() -> str:
    """Return the JSON Schemas of `common`, `workloads` and `storages`; `codecs`; `payloads`."""

def record_schema() -> str:
    """Return the JSON Schema of a record: what `Engine.run` returns."""

def resolve(trial_json: str) -> str:
    """Return the trial with every default; refuse an unknown key with its path."""

def parse_size(text: str) -> int:
    """Return bytes: `4k` = `4KiB` = 4096, `4kB` = 4000."""

def parse_span(text: str) -> float:
    """Return seconds: `2m`, `200ms`, `5`."""

def format_size(size_bytes: int) -> str:
    """Return the shortest exact form: 4096 is `4KiB`, 64,000,000 is `64MB`."""

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

def is_complete() -> bool:
    """Return whether this thread's last save, restore or verification is complete.

    It cannot be interrupted any more.
    """

def was_too_late() -> bool:
    """Return, once, whether that one was interrupted when it could not be stopped any more."""

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
    cut_pipes: bool = False,
    progress: Callable[[dict[str, Any]], object] | None = None,
) -> str:
    """Save a running process with its descendants, then kill it or let it go on.

    With `cut_pipes` also one with a pipe to a process outside. Return the report.
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
    on_gpus: list[tuple[int, int, int, int, Any]] = ...,
    released: Callable[[], object] | None = None,
) -> str:
    """Save an index and contiguous buffers of bytes at their offsets; return the report.

    Of what is on GPUs: offset, GPU, address, length, owner. `released` is called once, when the
    buffers may be changed again.
    """

def gpu_of(address: int) -> int | None:
    """Return the number of the GPU whose memory the address is, None if it is none's."""

def read_index(trial_json: str) -> tuple[bytes, str, int] | None:
    """Return (index, id of the save, bytes of its data), or None where files were saved."""

def restore_state(
    trial_json: str,
    id: str,  # noqa: A002
    lent: list[tuple[int, Any]],
    progress: Callable[[dict[str, Any]], object] | None = None,
    on_gpus: list[tuple[int, int, int, int, Any]] = ...,
) -> str:
    """Restore the data of the save `id` into writable buffers at their offsets."""
