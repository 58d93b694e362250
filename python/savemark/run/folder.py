"""The run folder while a run writes it: `run.json` first, then one line per finished trial."""

from __future__ import annotations

import fcntl
import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from savemark.errors import usage
from savemark.records.stored import HEAD, RECORDS, Lines, checked, read_head

Json = dict[str, Any]

LOG = "log.txt"


class RunFolder:
    """An open run folder. A kill at any time loses at most the trial in flight."""

    def __init__(self, path: Path, head: Json) -> None:
        self.path = path
        self.head = head
        self._records = (path / RECORDS).open("ab")
        self._log = (path / LOG).open("a", encoding="utf-8")
        self._lock()
        self.finished = self._read_finished()

    @classmethod
    def create(cls, path: Path, head: Json) -> RunFolder:
        """Make a new run folder; a folder that holds anything is a usage error."""
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise usage(f"{path} is not empty", "choose another --out, or --resume that folder")
        _write_head(path, head)
        return cls(path, head)

    @classmethod
    def reopen(cls, path: Path) -> RunFolder:
        """Open the folder of an unfinished run; a torn last line is cut off."""
        return cls(path, read_head(path))

    def append(self, line: Json) -> None:
        """Add a finished trial; it is on stable storage when this returns."""
        # Newlines inside strings are escaped by JSON: a line is a record.
        self._records.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        self._records.flush()
        os.fsync(self._records.fileno())
        self.finished.add(int(line["index"]))

    def extend(self, entries: list[Json]) -> None:
        """Add trials to the end of the plan in `run.json`, which is whole at any moment."""
        self.head["plan"] = [*self.head["plan"], *entries]
        _write_head(self.path, self.head)

    def log(self, message: str) -> None:
        """Add a line with the time of day to `log.txt`."""
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        self._log.write(f"{now} {message}\n")
        self._log.flush()

    def close(self) -> None:
        """Release the folder."""
        self._records.close()
        self._log.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._records, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise usage(
                f"another savemark process is writing {self.path}", "wait until it has finished"
            ) from None
        except OSError as error:
            # No locks on this filesystem (some network mounts): said once, where it is looked for.
            self.log(f"the run folder is not locked: {error.strerror}")

    def _read_finished(self) -> set[int]:
        """Return the indices that need not run again; cut off a torn last line.

        A failed trial runs again: its cause may be gone. Corrupt data is a finding, and stays.
        """
        path = self.path / RECORDS
        finished: dict[int, bool] = {}
        for number, (place, text) in enumerate(Lines(path), start=1):
            if not text.endswith(b"\n"):
                os.truncate(path, place)
                self.log(f"cut off a torn last line of {len(text)} bytes")
                break
            try:
                line = checked(text, f"{path}:{number}")
            except ValueError as error:
                raise usage(
                    f"{path}:{number}: {error}",
                    "remove that line: its trial runs again; or start a new run",
                ) from None
            corrupt = line.error is not None and line.error.kind == "corrupt"
            finished[line.index] = line.status == "ok" or corrupt
        return {index for index, done in finished.items() if done}


def _write_head(path: Path, head: Json) -> None:
    _write_durably(path / HEAD, json.dumps(head, indent=1, ensure_ascii=False) + "\n")


def _write_durably(path: Path, text: str) -> None:
    """Write a file that is either whole or absent, whatever happens."""
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
