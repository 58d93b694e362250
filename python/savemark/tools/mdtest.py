"""mdtest: its text, and the CSV of its ranks.

A rate is items per second until the last rank has ended and all have met. Rows of the CSV's ranks
leave the waiting for each other out, which in a short test is most of the time; only its row `all`
is read. With -P a second summary holds seconds, whatever its title says. A rate of zero is a phase
that did not run; zero files are a test of nothing, which is shown as such.
"""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from typing import Any

from savemark.errors import usage
from savemark.records.imported import Imported
from savemark.records.run import Json
from savemark.tools._numbers import NS_PER_S, binary_size, number, whole
from savemark.tools.source import Source

NAME = "mdtest"
WHAT = "text and rank CSV of mdtest"
BANNER = re.compile(
    r"^mdtest-(\S+) was launched with (\d{1,9}) total task\(s\) on (\d{1,9}) node", re.MULTILINE
)
CSV = "rank,items,rate-"
ROW = re.compile(
    r"^\s*(Directory|File|Tree) (creation|stat|read|rename|removal)\s*:?"
    r"\s+(\S{1,40})\s+(\S{1,40})\s+(\S{1,40})\s+(\S{1,40})\s*$"
)
# The words of the engine's own workload `metadata`.
PHASES = {"creation": "create", "removal": "remove"}
KINDS = {"File": "files", "Directory": "directories", "Tree": "tree"}
SUMMARY = re.compile(r"^SUMMARY.*\(of (\d{1,9}) iterations\)")
# Values that end up as factors, by their flag; the sizes apart.
COUNTS = {"n": "items", "I": "items_per_directory", "z": "depth", "b": "branches"}
SIZES = {"w": "file_size", "e": "read_size"}
NEVER_RUN = ("rate-Directory read",)  # it has a column, and mdtest no such operation
VALUES = "abBdeEfGIlMnNOpQRswVWxXzZ"


def recognises(source: Source) -> bool:
    """Whether mdtest says its name, or the CSV has its columns."""
    return source.text.lstrip().startswith(CSV) or bool(BANNER.search(source.text))


def parse(source: Source) -> Imported:
    """Return an entry per kind (files, directories, the tree), with a phase per operation."""
    if source.text.lstrip().startswith(CSV):
        return _of_ranks(source)
    entries = []
    starts = [*(found.start() for found in BANNER.finditer(source.text)), len(source.text)]
    for start, end in pairwise(starts):
        entries += _of_text(source, source.text[start:end])
    return Imported(entries=entries)


def _of_text(source: Source, text: str) -> list[Json]:
    banner = BANNER.match(text)
    assert banner is not None  # the text was cut there
    command = re.search(r"^Command line used: (.+)$", text, re.MULTILINE)
    words = command[1].strip() if command else ""
    ranks = int(banner[2])
    factors = {"nodes": int(banner[3]), "ranks": ranks, **_options(words)}
    about = {"tool": NAME, "tool_version": banner[1], "command": words or None, "valid": True}
    said = re.search(r"^(?:ior )?ERROR[: ].*", text, re.MULTILINE)
    about |= {"valid": False, "message": said[0].strip()} if said else {}
    counted = re.search(
        r"^\s*(\d{1,9}) tasks, (\d{1,18}) (?:files|directories)", text, re.MULTILINE
    )
    items = int(counted[2]) if counted else None
    rates, iterations = _first_summary(source, text)
    if not rates and items != 0:
        message = f"{source.path.name}: mdtest has no summary in it; was it stopped?"
        error = {"kind": "failed", "message": message, "hint": None}
        return [{"role": "trial", "name": NAME, "factors": factors, "error": error}]
    statistic = "mean" if iterations > 1 else None
    rows: dict[tuple[str, str], Row] = {
        key: (items if key[0] != "Tree" else None, rate, None) for key, rate in rates.items()
    }
    if items == 0:
        rows |= {("File", operation): (0, 0.0, 0) for operation in ("creation", "stat", "removal")}
    return _entries(rows, factors, about, {"worker_count": ranks, "statistic": statistic})


def _first_summary(source: Source, text: str) -> tuple[dict[tuple[str, str], float], int]:
    """Return the means of the first summary; a second one is of times."""
    rates: dict[tuple[str, str], float] = {}
    iterations = 0
    for line in text.split("\n"):
        title = SUMMARY.match(line)
        if title and iterations:
            break
        iterations = int(title[1]) if title else iterations
        row = ROW.match(line) if iterations else None
        if row:
            mean = number(row[5])
            if mean is None or mean < 0:
                raise usage(f"{source.path}: the rate of {row[1]} {row[2]} is `{row[5]}`")
            if mean > 0:
                rates[row[1], row[2]] = mean
    return rates, iterations


Row = tuple[int | None, float, int | None]  # items, items per second, ns if they are printed


def _entries(
    rows: dict[tuple[str, str], Row], factors: Json, about: Json, common: Json
) -> list[Json]:
    found = []
    for kind, ours in KINDS.items():
        phases = [
            common | _phase(PHASES.get(operation, operation), *row)
            for (of, operation), row in rows.items()
            if of == kind
        ]
        if phases:
            record = {"trial": {"workload": "metadata"}, "source": about, "phases": phases}
            head = {"role": "trial", "name": NAME, "factors": {"kind": ours, **factors}}
            found.append({**head, "record": record})
    return found


def _phase(name: str, items: int | None, rate: float, elapsed_ns: int | None) -> Json:
    """Return a phase; how many directories a tree has nobody says, so it may have a rate alone."""
    if elapsed_ns is None and items is not None:
        elapsed_ns = round(items / rate * NS_PER_S)
    return {
        "name": name,
        "time_base": "wall",
        "elapsed_ns": elapsed_ns,
        "operations": items,
        "reported_ops_per_s": rate,
    }


def _options(command: str) -> Json:
    flags = _flags(command)
    found: Json = {ours: whole(flags[flag]) for flag, ours in COUNTS.items() if flag in flags}
    found |= {ours: binary_size(flags[flag]) for flag, ours in SIZES.items() if flag in flags}
    if flags:
        found["shared"] = "u" not in flags
        found["neighbour"] = (whole(flags.get("N", "0")) or 0) != 0
        found["sync"] = "each" if "y" in flags else "group" if "Y" in flags else "none"
    return {name: level for name, level in found.items() if level is not None}


def _flags(command: str) -> dict[str, str]:
    try:
        words = shlex.split(command)[1:]
    except ValueError:
        words = command.split()[1:]
    found: dict[str, str] = {}
    while words:
        word = words.pop(0)
        if re.match(r"-[A-Za-z]", word):
            takes = word[1] in VALUES
            value: Any = word[2:].lstrip("=") if takes else ""
            found[word[1]] = value or (words.pop(0) if takes and words else "")
            found |= {} if takes else dict.fromkeys(word[2:], "")
    return found


def _of_ranks(source: Source) -> Imported:
    """Return the row `all`: rates of one repeat, by a clock that waits for every rank."""
    lines = [line.split(",") for line in source.lines if line.strip()]
    columns, rows = lines[0], lines[1:]
    whole_row = next((row for row in rows if row[0] == "all"), None)
    if whole_row is None or len(whole_row) != len(columns):
        raise usage(f"{source.path}: mdtest's CSV has no row `all`", "was mdtest stopped?")
    first = [row[0] for row in rows if row[0] != "all"]
    ranks = len(set(first))
    values = dict(zip(columns, whole_row, strict=True))
    each = whole(values.get("items"))
    if each is None or each < 0 or not ranks:
        raise usage(f"{source.path}: it does not say what each of its {ranks} ranks did")
    known: dict[tuple[str, str], Row] = {}
    for column in columns:
        kind, _, operation = column.removeprefix("rate-").partition(" ")
        if not column.startswith("rate-") or kind not in KINDS or column in NEVER_RUN:
            continue
        rate, seconds = number(values[column]), number(values.get(f"time-{kind} {operation}"))
        if rate and seconds and rate > 0 and seconds > 0:
            items = None if kind == "Tree" else each * ranks
            known[kind, operation] = (items, rate, round(seconds * NS_PER_S))
    if each == 0:
        known |= {("File", operation): (0, 0.0, 0) for operation in ("creation", "stat", "removal")}
    if not known:
        raise usage(f"{source.path}: no rate in its row `all`", "was mdtest stopped?")
    iterations = max((first.count(rank) for rank in first[:1]), default=1)
    notes = []
    if iterations > 1:
        notes.append(
            f"read 1 of {iterations} repeats: of the others only the ranks' own times are there, "
            "which leave out the waiting for each other"
        )
    factors = {"ranks": ranks, "items": each}
    entries = _entries(known, factors, {"tool": NAME}, {"worker_count": ranks})
    return Imported(entries=entries, notes=notes)
