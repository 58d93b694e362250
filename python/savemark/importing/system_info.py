"""`system_info.txt` as written by the script of bsach64/streamer-bench: facts about the host."""

from __future__ import annotations

import re

from savemark.records.imported import Imported
from savemark.records.run import Json
from savemark.tools._numbers import times, whole
from savemark.tools.source import Source

NAME = "system-info"
WHAT = "system_info.txt of streamer-bench"
# `free -h` rounds; the unit is a power of 1024.
UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


def recognises(source: Source) -> bool:
    """Whether it has the script's headings."""
    return (
        "=== System Information ===" in source.text
        and "=== Software Environment ===" in source.text
    )


def parse(source: Source) -> Imported:
    """Return what it says; a section that is empty (the script's Cedana one) gives no version."""
    path, text = source.path, source.text
    host: Json = {
        "cpu": {"model": _matched(text, r"^Model name:\s+(.+)"), "logical": _count(text)},
        "memory": {"total_bytes": _memory(text)},
        "kernel_release": _matched(text, r"^Kernel: (\S+)"),
        "os": _matched(text, r'^PRETTY_NAME="(.+)"'),
    }
    versions = {
        "criu": _matched(text, r"^CRIU:\n(?:Version: )?(\S.*)"),
        "cedana": _matched(text, r"^Cedana:\n(\S.*)"),
    }
    notes = [f"it does not say the version of {name}" for name, v in versions.items() if v is None]
    return Imported(label=path.stem, host=host, tools=versions, notes=notes)


def _matched(text: str, pattern: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1].strip() if match else None


def _count(text: str) -> int | None:
    return whole(_matched(text, r"^CPU\(s\):\s+(\d{1,9})\s*$"))


def _memory(text: str) -> int | None:
    match = re.search(r"^Mem:\s+([\d.]{1,9})(Ki|Mi|Gi|Ti)", text, re.MULTILINE)
    return times(match[1], UNITS[match[2]]) if match else None
