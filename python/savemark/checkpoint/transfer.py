"""One save or restore from end to end; the commands and the Python API are thin lines over it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NotRequired, TypedDict

from savemark import places
from savemark.checkpoint import listing
from savemark.errors import usage
from savemark.places import Place

Json = dict[str, Any]


class Report(TypedDict):
    """What was saved, restored or verified, and how: sizes in bytes, times in nanoseconds."""

    checkpoint: str  # its place
    id: str
    codec: str
    library: str  # that encoded it
    streams: int
    user_bytes: int
    stored_bytes: int
    elapsed_ns: int
    cpu_ns: int
    stall_ns: int  # until the state might be changed: of what is on GPUs, before it is durable
    buffer_bytes: int
    durable: bool
    verified: bool
    path: Json  # which storage ran, and notes
    removed: list[str]  # names, with `keep`
    pid: NotRequired[int]  # of a process that goes on
    container: NotRequired[str]  # that goes on


Progress = Callable[[Json], object]
# Takes the engine's trial, saves, and returns the engine's report.
Writer = Callable[[str], str]


def save(url: str, write: Writer, options: Mapping[str, object], keep: int | None = None) -> Report:
    """Save as the checkpoint `url`, or with `keep` as a new one in the place `url`."""
    import savemark._engine as engine

    if keep is not None and (not isinstance(keep, int) or keep < 1):
        raise usage(f"keep: {keep!r} is no number from 1 on", "keep at least the newest one")
    where = places.at(url, options)
    engine.resolve(where.trial(options))  # a wrong option is told before anything is made
    if keep is None:
        listing.check_single(where)
        with where.new():
            return report(where, json.loads(write(where.trial(options))))
    listing.check_many(where)
    with where.new(), where.locked():
        newest = listing.another(where)
        with newest.new():
            made = report(newest, json.loads(write(newest.trial(options))))
        # The new one is complete: whatever happens now, it stays.
        made["removed"], notes = listing.retain(where, newest, keep)
        made["path"]["notes"] += notes
    return made


def report(place: Place, reported: Json) -> Report:
    """Return the report of a save, a restore or a verification as users get it."""
    checkpoint, phase = reported["checkpoint"], reported["phase"]
    return {
        "checkpoint": str(place),
        "id": checkpoint["id"],
        "codec": checkpoint["codec"],
        "library": checkpoint["library"],
        "streams": checkpoint["streams"],
        "user_bytes": checkpoint["user_bytes"],
        "stored_bytes": checkpoint["stored_bytes"],
        "elapsed_ns": phase["elapsed_ns"],
        "cpu_ns": phase["cpu_user_ns"] + phase["cpu_system_ns"],
        "stall_ns": phase.get("stall_ns", phase["elapsed_ns"]),
        "buffer_bytes": reported["buffer_bytes"],
        "durable": phase["durable"],
        "verified": phase["verified"],
        "path": reported["path"],
        "removed": [],
    }
