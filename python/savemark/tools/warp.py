"""warp: how it is run, and how its results are read.

Run: Random ranges of one object, for a time (`warp get --range-size`).

Read: Its raw data (tab-separated, in zstd), its time series (CSV) and its JSON.

A phase is all requests of one kind, from the first that began to the last that ended; of the JSON
it is the window that warp itself took for its averages. `mb_per_sec` is MiB/s.
"""

from __future__ import annotations

import csv
import os
import re
from array import array
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import urlsplit

from savemark import limits
from savemark.errors import usage
from savemark.records.imported import Imported
from savemark.records.run import Json
from savemark.tools import _bucket
from savemark.tools._json import objects, part, parts
from savemark.tools._numbers import number, times, whole
from savemark.tools.job import Job, Step
from savemark.tools.source import Source

NAME = "warp"
WHAT = "raw data, time series and JSON of warp"
VERSION = ("warp", "--version")
TARGETS = ("url",)

# How it is run.

RESULT = "warp"  # it appends .csv.zst, with a line per request


def steps(job: Job) -> list[Step]:
    """Return the one command line; it reads the object that was laid out before."""
    job.workload("random")
    job.only("operation", "read", "it writes whole objects for a time, and a trial writes a size")
    if job.take("duration") is None:
        job.refuse("duration", "it always runs for a time", "use --duration 10s")
    job.only("operations", None, "it ends after a time alone")
    for name in ("payload", "size", "sync"):
        job.take(name)
    job.take("seed")  # its offsets have a seed of their own
    server = urlsplit(_bucket.endpoint() or "https://s3.amazonaws.com")
    bucket, _, prefix = job.place.split("://", 1)[1].partition("/")
    transfer = int(job.take("transfer_size"))
    workers = int(job.take("workers")) * int(job.take("queue_depth"))
    words = ["warp", "get", "--no-color", f"--host={server.netloc}", f"--bucket={bucket}"]
    words += [f"--prefix={prefix}/", "--noclear", "--list-existing", "--full"]
    words += ["--range", f"--range-size={transfer}", f"--concurrent={workers}"]
    words += [f"--duration={job.trial['duration']}s", "--autoterm=false"]
    words += [f"--benchdata={job.scratch}/{RESULT}"]
    words += ["--tls"] if server.scheme == "https" else []
    for name in ("part_size", "concurrency", "retries", "timeout"):
        job.take(
            name
        )  # of writing the object, which is not measured; it counts errors, not retries
    job.complete()
    return [
        Step(
            "read",
            tuple(words),
            workers=workers,
            environment=_credentials(),
            result=f"{RESULT}.csv.zst",
            theirs=("read", "get", "GET", "random_read"),
        )
    ]


def _credentials() -> dict[str, str]:
    """Return its names for what the environment holds: never flags, which everybody can see."""
    names = {
        "WARP_ACCESS_KEY": "AWS_ACCESS_KEY_ID",
        "WARP_SECRET_KEY": "AWS_SECRET_ACCESS_KEY",
        "WARP_SESSION_TOKEN": "AWS_SESSION_TOKEN",
        "WARP_REGION": "AWS_REGION",
    }
    return {theirs: os.environ[ours] for theirs, ours in names.items() if os.environ.get(ours)}


# What it writes.

RAW = ("idx", "thread", "op")
SERIES = ("index", "op", "host", "duration_s")
PHASES = {"PUT": "write", "GET": "read", "STAT": "stat", "DELETE": "remove", "LIST": "list"}
NS_PER_MS, NS_PER_S = 1_000_000, 1_000_000_000
PERCENTILES = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p99_9_ns": 0.999}
MILLIS = {
    "min_ns": "fastest_millis",
    "mean_ns": "dur_avg_millis",
    "p50_ns": "dur_median_millis",
    "p90_ns": "dur_90_millis",
    "p99_ns": "dur_99_millis",
    "max_ns": "slowest_millis",
}


def recognises(source: Source) -> bool:
    """Whether its first line is a header of warp's, or it is JSON of operations by type."""
    first = source.head.lstrip().split("\n")[0]
    if first.startswith(("\t".join(RAW), ",".join(SERIES))):
        return True
    return '"by_op_type"' in source.text and '"total_requests"' in source.text


def parse(source: Source) -> Imported:
    """Return one entry with a phase per kind of request."""
    first = source.head.lstrip().split("\n")[0]
    if first.startswith(RAW[0]):
        phases, about = _of_raw(source)
    elif first.startswith(SERIES[0]):
        phases, about = _of_series(source)
    else:
        phases, about = _of_json(source)
    if not phases:
        raise usage(f"{source.path}: warp has no request in it", "was it stopped?")
    record = {"trial": {}, "source": {"tool": NAME, **about}, "phases": phases}
    entry = {"role": "trial", "name": NAME, "factors": _factors(about), "record": record}
    return Imported(entries=[entry])


def _factors(about: Json) -> Json:
    """Return what the command line says, where there is one: `warp get --concurrent=2`."""
    command = str(about.get("command") or "")
    factors: Json = {}
    benchmark = re.match(r"\S*warp\s+([a-z-]{2,20})\b", command)
    if benchmark:
        factors["operation"] = benchmark[1]
    workers = re.search(r"--concurrent[= ](\d{1,9})", command)
    size = re.search(r"--obj\.size[= ](\S{1,20})", command)
    factors |= {"workers": int(workers[1])} if workers else {}
    return factors | ({"object_size": size[1]} if size else {})


def _phase(name: str, elapsed_ns: int, requests: int, moved: int | None) -> Json:
    phase: Json = {"name": PHASES.get(name, name.lower()), "time_base": "wall"}
    phase |= {"elapsed_ns": elapsed_ns, "operations": requests}
    if name in ("PUT", "GET"):
        phase |= {"user_bytes": moved, "stored_bytes": moved}
    if name == "PUT":
        # S3 answers a PUT when the object is there, whole and under its name.
        phase |= {"contract": "rename", "atomic": True}
    return phase


# Raw data: one line per request.


def _of_raw(source: Source) -> tuple[list[Json], Json]:
    lines = enumerate(source.stream(), start=1)
    columns = next(lines)[1].lstrip().split("\t")
    missing = {"op", "bytes", "error", "start", "end", "thread"} - set(columns)
    if missing:
        raise usage(f"{source.path}: warp's raw data lacks the column {min(missing)}")
    kinds: dict[str, _Requests] = {}
    command = None
    for place, line in lines:
        if not line or line.startswith("#"):
            # The last lines tell how it was called.
            command = line[2:] if line.startswith("# warp ") and command is None else command
            continue
        values = line.split("\t")
        if len(values) != len(columns):
            raise usage(
                f"{source.path}:{place}: {len(values)} fields where the header has {len(columns)}",
                "the file is damaged there, or was cut off",
            )
        row = dict(zip(columns, values, strict=True))
        start, end, moved = _unix_ns(row["start"]), _unix_ns(row["end"]), whole(row["bytes"])
        if start is None or end is None or end < start or moved is None or moved < 0:
            raise usage(f"{source.path}:{place}: a request without a time or its bytes")
        worker = f"{row.get('client_id', '')} {row['thread']}"
        kind = kinds.setdefault(row["op"], _Requests())
        kind.add(worker, (start, end), moved, bool(row["error"]))
        source.limit(len(kinds), limits.MOST_KINDS, "kinds of requests")
        source.limit(len(kind.last), limits.MOST_ITEMS, "workers")
    failed = sum(kind.failed for kind in kinds.values())
    message = f"warp: {failed} requests failed" if failed else None
    phases = [kind.phase(name) for name, kind in kinds.items() if kind.spans]
    return phases, {"command": command, "valid": not failed, "message": message}


class _Requests:
    """All requests of one kind."""

    def __init__(self) -> None:
        self.spans = array("q")  # millions of numbers
        self.started, self.ended = 1 << 63, 0
        self.last: dict[str, int] = {}  # by worker, when its last request ended
        self.moved = self.failed = 0

    def add(self, worker: str, span: tuple[int, int], moved: int, failed: bool) -> None:
        start, end = span
        self.failed += failed
        if failed:
            return
        self.spans.append(end - start)
        self.started, self.ended = min(self.started, start), max(self.ended, end)
        self.last[worker] = max(self.last.get(worker, 0), end)
        self.moved += moved

    def phase(self, name: str) -> Json:
        spans = sorted(self.spans)
        phase = _phase(name, self.ended - self.started, len(spans), self.moved)
        latency = {"count": len(spans), "min_ns": spans[0], "max_ns": spans[-1]}
        latency["mean_ns"] = round(sum(spans) / len(spans))
        for ours, share in PERCENTILES.items():
            latency[ours] = spans[min(len(spans) - 1, int(len(spans) * share))]
        first = min(self.last.values()) - self.started
        times_ = {"first_done_ns": first, "last_done_ns": phase["elapsed_ns"]}
        return phase | times_ | {"latency": latency, "worker_count": len(self.last)}


@lru_cache(maxsize=4096)
def _second(text: str, zone: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text + ("+00:00" if zone in ("", "Z") else zone))
        return int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    except (ValueError, OverflowError):
        return None


def _unix_ns(text: str) -> int | None:
    """Return RFC 3339 with up to nine digits of a second, which `datetime` would cut."""
    match = re.fullmatch(
        r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)?", text.strip()
    )
    second = _second(match[1], match[3] or "") if match else None
    if match is None or second is None:
        return None
    return second * NS_PER_S + int((match[2] or "").ljust(9, "0"))


# Time series: one line per operation, host and span.


def _of_series(source: Source) -> tuple[list[Json], Json]:
    sums: dict[str, Json] = {}
    rows = list(csv.DictReader(line for line in source.lines if line.strip()))
    total = any(not row.get("host") for row in rows)  # lines of all hosts together
    for row in rows:
        if total and row.get("host"):
            continue
        start, end = (_unix_ns(row.get(f"{which}_time") or "") for which in ("start", "end"))
        moved, done = whole(row.get("bytes")), number(row.get("ops_ended"))
        failed = whole(row.get("errors"))
        if start is None or end is None or moved is None or done is None or not row.get("op"):
            raise usage(f"{source.path}: a line of warp's time series without time, bytes or ops")
        one = sums.setdefault(str(row["op"]), {"start": start, "end": end, "bytes": 0, "ops": 0.0})
        one |= {"start": min(one["start"], start), "end": max(one["end"], end)}
        one |= {"bytes": one["bytes"] + moved, "ops": one["ops"] + done}
        one["failed"] = one.get("failed", 0) + (failed or 0)
    phases = [
        _phase(name, one["end"] - one["start"], round(one["ops"]), one["bytes"])
        for name, one in sums.items()
        if name != "TOTAL" or len(sums) == 1
    ]
    failed = sum(one["failed"] for one in sums.values())
    return phases, {"valid": not failed, "message": f"warp: {failed} failed" if failed else None}


# JSON of version 2.


def _of_json(source: Source) -> tuple[list[Json], Json]:
    whole_file = next((each for each in objects(source) if "by_op_type" in each), None)
    if whole_file is None:
        raise usage(f"{source.path}: warp's JSON is cut off")
    phases, failed = [], 0
    for name, one in part(whole_file["by_op_type"]).items():
        averages = part(one)
        window = part(averages.get("throughput"))
        elapsed = times(window.get("measure_duration_millis"), NS_PER_MS)
        requests = whole(window.get("ops"))
        failed += whole(averages.get("total_errors")) or 0
        if elapsed and requests:
            phase = _phase(str(name), elapsed, requests, times(window.get("bytes"), 1))
            phase["worker_count"] = whole(averages.get("concurrency"))
            phases.append(phase | {"latency": _latency(averages)})
    command = str(whole_file.get("commandline") or "")
    about = {"command": command or None, "tool_version": whole_file.get("warp_version")}
    message = f"warp: {failed} requests failed" if failed else None
    return phases, {**about, "valid": not failed, "message": message}


def _latency(found: Json) -> Json | None:
    """Return the percentiles of a single client: those of several cannot be merged."""
    clients = [each for one in _values(found) for each in parts(one)]
    requests = part(clients[0].get("single_sized_requests")) if len(clients) == 1 else {}
    known = {ours: times(requests.get(name), NS_PER_MS) for ours, name in MILLIS.items()}
    return known if any(known.values()) else None


def _values(found: Json) -> Iterator[object]:
    yield from part(found.get("requests_by_client")).values()
