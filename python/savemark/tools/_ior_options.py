"""What IOR was told: its command line, the block `Options:` and JSON's Parameters, in our words."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

from savemark.records.run import Json
from savemark.tools._flags import short_options
from savemark.tools._numbers import binary_size, whole

# Flags that take a value, apart from the sizes; and what JSON calls them.
VALUES = "abdDfiGhJjkNoOQsSTtVX"
ON = ("1", "true", "yes")


class Options:
    """The options of one test; what is known twice is taken from where it is exact."""

    def __init__(self, command: str = "", shown: Json | None = None) -> None:
        self.command = command
        self.words = short_options(command, VALUES)
        self.shown = {_plain(name): value for name, value in (shown or {}).items()}

    def named(self, *names: str) -> Any:
        """Return what the file says of an option by one of its names."""
        return next(
            (self.shown[_plain(name)] for name in names if _plain(name) in self.shown), None
        )

    def size(self, flag: str, *names: str) -> int | None:
        """Return bytes: of the command line, for `2.19 MiB` of the options is rounded."""
        given = binary_size(self.words[flag]) if flag in self.words else None
        return given if given is not None else binary_size(self.named(*names) or "")

    def count(self, flag: str, *names: str) -> int | None:
        """Return a number of something."""
        given = whole(self.words.get(flag, ""))
        return given if given is not None else whole(str(self.named(*names) or "").strip())

    def on(self, flag: str, *names: str) -> bool:
        """Whether a switch is on."""
        return flag in self.words or str(self.named(*names)).lower() in ON

    @property
    def deadline(self) -> bool:
        """Whether a stonewall may have ended it early, so that the sizes say nothing."""
        wall = str(self.words.get("D") or self.named("stonewallingTime", "deadlineForStonewall"))
        return (whole(wall) or 0) > 0

    @property
    def total(self) -> int | None:
        """Bytes that all ranks move in a phase that nothing ends early."""
        parts = (
            self.size("b", "blocksize"),
            self.count("s", "segments", "segmentCount") or 1,
            self.count("N", "tasks", "numTasks"),
        )
        if None in parts:
            return binary_size(self.named("aggregate filesize", "expectedAggFileSize") or "")
        block, segments, ranks = (int(part or 0) for part in parts)
        return block * segments * ranks

    @property
    def contract(self) -> str:
        """What is durable when the clock of a write stops; unknown where no option is known."""
        if self.on("Y", "fsyncperwrite"):
            return "each"
        if self.on("e", "fsync"):
            return "end"
        return "none" if self.words or self.named("fsync") is not None else "unknown"

    @property
    def direct(self) -> bool | None:
        """Whether it went around the page cache."""
        if not self.words and self.named("useO_DIRECT") is None:
            return None
        return self.on("B", "useO_DIRECT") or "useO_DIRECT=1" in self.command

    @property
    def shifted(self) -> bool | None:
        """Whether each rank reads what a rank of another node has written."""
        nodes = self.count("", "nodes")
        moved = any(self.on(f, n) for f, n in (("C", "reorderTasks"), ("Z", "reorderTasksRandom")))
        return None if nodes is None else moved and nodes > 1

    @property
    def place(self) -> str | None:
        """The directory of the file that it wrote and read."""
        file = self.words.get("o") or self.named("test filename", "testFileName")
        return str(PurePosixPath(str(file)).parent) if file else None

    def factors(self) -> Json:
        """Return what a study would vary."""
        own = self.on("F", "filePerProc") or self.named("access") == "file-per-process"
        known = bool(self.words or self.shown)
        factors = {
            "api": self.words.get("a") or self.named("api"),
            "layout": ("file_per_process" if own else "single_shared_file") if known else None,
            "nodes": self.count("", "nodes"),
            "ranks": self.count("N", "tasks", "numTasks"),
            "block_size": self.size("b", "blocksize"),
            "transfer_size": self.size("t", "xfersize", "transferSize"),
            "segments": self.count("s", "segments", "segmentCount") or (1 if self.words else None),
            "sync": self.contract if self.contract != "unknown" else None,
            "direct": self.direct,
        }
        return {name: level for name, level in factors.items() if level is not None}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())
