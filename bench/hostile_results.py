"""Result files, run folders and studies that nobody's tool wrote; `hostile.py` runs them."""

import json
import os
from pathlib import Path
from typing import Any

from hostile import MIB, Commands, case
from savemark import limits

ZSTD, BLOCK = b"\x28\xb5\x2f\xfd", 128 << 10
SERIES = "compression,streams,checkpoint_time,restore_time\n"
RAW = b"idx\tthread\top\tclient_id\tn_objects\tbytes\tendpoint\tfile\terror\tstart\tend\n"


def packed(byte: bytes, size: int, before: bytes = b"") -> bytes:
    """zstd of some bytes, and of one byte again and again: 4 bytes for each 128 KiB."""
    head = ZSTD + bytes([0x00, 0x38])
    first = (len(before) << 3).to_bytes(3, "little") + before if before else b""
    block = (1 << 1 | BLOCK << 3).to_bytes(3, "little") + byte
    return (
        head + first + block * (size // BLOCK) + (1 | 1 << 1 | 1 << 3).to_bytes(3, "little") + byte
    )


def read_as_file(folder: Path, content: bytes, name: str = "file") -> Commands:
    (folder / name).write_bytes(content)
    return [["import", name, "--out", "run"], ["check", name]]


@case
def bombs_of_newlines(folder: Path) -> Commands:
    return read_as_file(folder, packed(b"\n", 1 << 40), "a.csv.zst")


@case
def bombs_of_text(folder: Path) -> Commands:
    return read_as_file(folder, packed(b"a", 1 << 40), "a.csv.zst")


@case
def bombs_behind_a_header_of_warp(folder: Path) -> Commands:
    return read_as_file(folder, packed(b"\n", 1 << 40, RAW), "a.csv.zst")


@case
def a_window_of_two_gigabytes(folder: Path) -> Commands:
    return read_as_file(folder, ZSTD + bytes([0x00, 21 << 3]) + packed(b"a", MIB)[6:], "a.zst")


@case
def requests_of_warp_by_the_million(folder: Path) -> Commands:
    line = b"0\t0\tGET\tc\t1\t16384\th\tf\t\t2026-01-01T00:00:00.5Z\t2026-01-01T00:00:01.5Z\n"
    return read_as_file(folder, RAW + line * ((60 << 20) // len(line)), "a.csv")


@case
def nested_braces(folder: Path) -> Commands:
    return read_as_file(folder, b'{"fio version":' * (2 * MIB))


@case
def empty_objects_by_the_million(folder: Path) -> Commands:
    return read_as_file(folder, b'{"fio version":"fio-3","jobs":[' + b"{}," * 490_000 + b"{}]}")


@case
def large_objects(folder: Path) -> Commands:
    jobs = ",".join(f'{{"jobname":"{n}","x":[{"[]," * 9}[]]}}' for n in range(50_000))
    return read_as_file(folder, f'{{"fio version":"fio-3","jobs":[{jobs}]}}'.encode())


@case
def rows_as_many_as_a_run_holds(folder: Path) -> Commands:
    rows = "".join(f"c{n},{n % 7},1,1\n" for n in range(27_900))
    return read_as_file(folder, f"{SERIES}{rows}".encode(), "a.csv")


@case
def levels_as_many_as_a_run_holds(folder: Path) -> Commands:
    results = [
        {"command": f"c{n}", "mean": 1, "median": 1, "user": 1, "parameters": {"x": str(n)}}
        for n in range(27_900)
    ]
    return read_as_file(folder, json.dumps({"results": results}).encode())


@case
def wide_characters(folder: Path) -> Commands:
    return read_as_file(folder, "\U0001f600".encode() * (8 * MIB - 1))


@case
def fifos_and_devices(folder: Path) -> Commands:
    os.mkfifo(folder / "fifo")
    return [["import", "fifo"], ["check", "fifo"], ["import", "/dev/zero"], ["check", "/dev/zero"]]


def a_run(folder: Path, head: dict[str, Any], lines: bytes) -> Commands:
    (folder / "run").mkdir()
    whole = {
        "schema": 1,
        "run_id": "r",
        "savemark_version": "0",
        "study": {},
        "targets": [],
        **head,
    }
    (folder / "run/run.json").write_text(json.dumps(whole))
    (folder / "run/records.jsonl").write_bytes(lines)
    return [["check", "run"], ["report", "run"], ["export", "run", "--out", "x.csv"]]


def a_line(index: int, **more: Any) -> bytes:
    phase = {"name": "save", "elapsed_ns": 10**9, "user_bytes": 10**9, **more}
    record = {"schema": 1, "trial": {"workload": "checkpoint"}, "phases": [phase]}
    head = {"index": index, "role": "trial", "name": "checkpoint", "label": "a", "repeat": index}
    item = {**head, "factors": {}, "status": "ok", "record": record, "error": None}
    return json.dumps(item, separators=(",", ":")).encode() + b"\n"


@case
def records_of_long_timelines(folder: Path) -> Commands:
    line = a_line(0, timeline={"interval_ns": 1, "bytes": [1] * 190_000})
    return a_run(
        folder, {}, b"".join(line.replace(b'"index":0', b'"index":%d' % n) for n in range(30))
    )


@case
def trials_as_many_as_a_run_holds(folder: Path) -> Commands:
    return a_run(folder, {}, b"".join(a_line(n) for n in range(limits.MOST_TRIALS)))


@case
def records_of_many_values(folder: Path) -> Commands:
    return a_run(folder, {}, b"".join(a_line(n, x=[{}] * 400_000) for n in range(20)))


@case
def records_of_newlines(folder: Path) -> Commands:
    return a_run(folder, {}, b"\n" * (200 * MIB))


@case
def records_in_one_line(folder: Path) -> Commands:
    return a_run(folder, {}, b"9" * (200 * MIB))


@case
def a_plan_without_end(folder: Path) -> Commands:
    plan = [{"index": n, "role": "trial", "name": "a"} for n in range(400_000)]
    return a_run(folder, {"plan": plan}, b"")


@case
def studies_that_laugh(folder: Path) -> Commands:
    lines = ["l0: &l0 [a, b]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 20)]
    (folder / "s.yaml").write_text("\n".join(lines))
    (folder / "deep.yaml").write_text("a: " + "[" * 200_000)
    (folder / "keys.yaml").write_text("".join(f"k{n}: v\n" for n in range(9_000)))
    levels = list(range(1, 634))
    (folder / "cells.yaml").write_text(
        "trial: {workload: checkpoint, storage: 'null', size: 1GiB}\n"
        f"factors: {{streams: {levels}, queue_depth: {levels}}}\n"
    )
    (folder / "here").mkdir()
    names = ("s", "deep", "keys", "cells")
    return [["run", f"./{name}.yaml", "./here", "--dry-run"] for name in names]
