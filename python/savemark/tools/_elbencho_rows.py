"""The three outputs of elbencho as rows with the names of its CSV's columns."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from savemark.errors import usage
from savemark.records.run import Json
from savemark.tools._json import part
from savemark.tools._numbers import number
from savemark.tools.source import Source

LINE = re.compile(r"^(\S{1,20})?\s+([A-Z][A-Za-z/ ]{2,30}?)\s*:\s+(\S{1,40})(?:\s+(\S{1,40}))?\s*$")
# A line of the text, by what the CSV calls it.
LABELS = {
    "Elapsed ms": "time ms",
    "Elapsed time": "time ms",
    "IOPS": "IOPS",
    "Throughput MiB/s": "MiB/s",
    "Total MiB": "MiB",
    "Files/s": "entries/s",
    "Files total": "entries",
    "Dirs/s": "entries/s",
    "Dirs total": "entries",
    "Objects/s": "entries/s",
    "Objects total": "entries",
    "Buckets/s": "entries/s",
    "Buckets total": "entries",
}
# And what JSON calls it; its amounts are exact.
KEYS = {
    "elapsed_time_ms": "time ms",
    "iops": "IOPS",
    "bytes/s": "bytes/s",
    "bytes": "bytes",
    "entries/s": "entries/s",
    "entries": "entries",
}


def of_csv(source: Source) -> Iterator[Json]:
    lines = source.lines
    start = next(n for n, line in enumerate(lines) if "time ms [first]" in line)
    columns = [name.strip() for name in next(csv.reader([lines[start]]))]
    missing = {"operation", "time ms [last]"} - set(columns)
    if missing:
        raise usage(f"{source.path}:{start + 1}: elbencho's header lacks `{min(missing)}`")
    for place, line in enumerate(lines[start + 1 :], start=start + 2):
        if not line.strip() or "time ms [first]" in line:
            continue  # a header of each run that was appended
        values = next(csv.reader([line]), [])
        if len(values) not in (len(columns), len(columns) + 1) or len(values) < 3:
            raise usage(
                f"{source.path}:{place}: {len(values)} fields where the header has {len(columns)}",
                "the file is damaged there; mend or remove that line",
            )
        yield dict(zip(columns, (value.strip() for value in values), strict=False))


def of_object(found: Json) -> Json:
    config = part(found.get("config"))
    row: Json = {name.replace("_", " "): value for name, value in config.items()}
    row |= {"path type": config.get("path_type"), "IO depth": config.get("io_depth")}
    row |= {"direct IO": config.get("direct_io"), "random": config.get("random_offsets")}
    row |= {"operation": found.get("phase_type", ""), "label": found.get("label")}
    for which in ("first", "last"):
        done = part(found.get(f"{which}_done"))
        for prefix, values in (("", done), ("rwmix read ", part(done.get("rwmix_read")))):
            for theirs, ours in KEYS.items():
                row[f"{prefix}{ours} [{which}]"] = values.get(theirs)
    delays = part(part(found.get("last_done")).get("latency"))
    for theirs, ours in (("entries", "Ent lat us"), ("IO", "IO lat us")):
        for name in ("min", "avg", "max"):
            row[f"{ours} [{name}]"] = part(delays.get(theirs)).get(f"{name}_us")
    return row


def of_text(source: Source) -> Iterator[Json]:
    """Yield the operations of the table; a line without an operation belongs to the one above."""
    command = re.search(r"^COMMAND(?: LINE)?: *(.{1,20000})$", source.text, re.MULTILINE)
    version = re.search(r"^(?:ELBENCHO )?VERSION: *(\S{1,40})", source.text, re.MULTILINE)
    row: Json = {}
    for line in source.lines:
        match = LINE.match(line)
        if not match or match[2] not in LABELS:
            continue
        if match[1]:
            if "time ms [last]" in row:
                yield row
            row = {"operation": match[1], "command": command and command[1]}
            row["version"] = version and version[1]
        if row:
            name = LABELS[match[2]]
            words = (match[3], match[4] or match[3])
            for which, word in zip(("first", "last"), words, strict=True):
                row[f"{name} [{which}]"] = milliseconds(word) if name == "time ms" else word
    if "time ms [last]" in row:
        yield row


def milliseconds(text: str) -> float | None:
    """Return milliseconds of `2784`, `905ms`, `2m3.241s` or `1h2m3s`."""
    if text.isascii() and text.isdigit():
        return number(text)
    match = re.fullmatch(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:([\d.]{1,20})s)?(?:(\d{1,9})ms)?", text)
    values = [number(word or "0") for word in match.groups()] if match else [None]
    if None in values:
        return None
    hours, minutes, seconds, ms = (float(value or 0) for value in values)
    return round(((hours * 60 + minutes) * 60 + seconds) * 1000 + ms, 3)
