"""The runs and files whose outputs are kept in tests/snapshots.

Made-up runs come from a seed. Recorded ones are real, small, and packed in tests/recorded:
`python tests/samples.py DIRECTORY` measures DIRECTORY and records them again.
"""

from __future__ import annotations

import json
import lzma
import socket
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from made_grid import make_grid
from made_race import Race, make_race
from made_run import Made, make_run

TESTS = Path(__file__).parent
DATA, RECORDED = TESTS / "data", TESTS / "recorded"

SMALL = {"codecs": ("none", "lz4", "zstd"), "streams": (0, 2, 4), "repeats": 3}
TWO = {"local": 1.0, "s3": 0.5}
STORAGES = Made(targets=TWO, codecs=("none", "tar", "zstd"), study="checkpoint-restore")
BROKEN = Made(**SMALL, fail=("lz4", 2), warm=True, cached=True, stop_after=30, torn=True)
CACHED = Race(cached=(("none", 4),), targets={"a": "/mnt/a", "b": "/mnt/b"}, filesystem="xfs")

# What each recorded run measures: a study, the options that make it small, and its targets.
STUDIES = {
    "acceptance": "--repeats 2 --block-size 256k --transfer-size 64k --segments 2 --items 40,80 "
    "--workers 1,2 --size 4m disk=a pool=b",
    "copies": "--repeats 2 --items 1,4 --file-size 4k,256k --workers 1 --disk b local=a",
    "durability": "--repeats 2 --duration 50ms --workers 1,2 a",
    "io500": "--workers 2 --phase-deadline 1s --block-size 32MiB --segments 400 "
    "--files-per-worker 700 --cache warm a",
    "mounts": "--repeats 2 --size 1m disk=a share=b",
    "peers": "peers.yaml --repeats 3 a",
    "quick": "quick --size 64m --budget 20s a",
    "tree": "quick --state model --budget 20s a",
}


def unpacked(name: str, folder: Path) -> Path:
    """Write a recorded run as a folder."""
    head, _, records = lzma.decompress((RECORDED / f"{name}.xz").read_bytes()).partition(b"\n")
    folder.mkdir(parents=True)
    (folder / "run.json").write_bytes(head)
    (folder / "records.jsonl").write_bytes(records)
    return folder


RUNS = {
    "made": lambda folder: make_run(folder, Made(**SMALL)),
    "broken": lambda folder: make_run(folder, BROKEN),
    "storages": lambda folder: make_run(folder, STORAGES),
    "race": make_race,
    "race-of-two": lambda folder: make_race(folder, CACHED),
    "gpu-read-grid": partial(make_grid, repeats=2, workers=(1, 16)),
    **{name: partial(unpacked, name) for name in STUDIES},
}

# What is asked of each run.
COMMANDS = (
    ("check",),
    ("check", "--json"),
    ("advise",),
    ("advise", "--json"),
)


def _before_and_after(folder: Path) -> tuple[Path, Path]:
    after = make_run(folder / "after", Made(**SMALL, seed=8, targets={"scratch": 0.8}))
    return make_run(folder / "before", Made(**SMALL)), after


def _two_races(folder: Path) -> tuple[Path, Path]:
    after = make_race(folder / "after", Race(seed=9, noise={("none", 4): 0.2}))
    return make_race(folder / "before"), after


PAIRS = {"slower": _before_and_after, "races": _two_races}

# What is asked of two runs.
OF_TWO = {
    "compare": ("compare", "BEFORE", "AFTER"),
    "compare-json": ("compare", "BEFORE", "AFTER", "--json"),
    "gate": ("gate", "AFTER", "--baseline", "BEFORE"),
    "gate-json": ("gate", "AFTER", "--baseline", "BEFORE", "--json"),
    "gate-markdown": ("gate", "AFTER", "--baseline", "BEFORE", "--markdown"),
    "expect": ("report", "AFTER", "--expect", "save.bandwidth >= 2 GB/s"),
    "two": ("report", "old=BEFORE", "new=AFTER", "--out", "both"),
}

# Other programs' files: those of each run, named as from tests/data.
FILES = {
    "aws": ("aws/upload.txt",),
    "dlio": ("dlio/summary.json",),
    "elbencho": ("elbencho/result.csv",),
    "elbencho-mixed": ("elbencho/mixed.csv",),
    "fio": ("fio/randread.json", "fio/two-jobs.json"),
    "fio-clients": ("fio/clients.json",),
    "gdsio": ("gdsio/lines.txt",),
    "github_benchmark": ("github_benchmark/data.js",),
    "hyperfine": ("hyperfine/export.json",),
    "io500": ("io500/result.txt",),
    "io500-2026": ("io500/result_2026.txt",),
    "ior": ("ior/text.txt",),
    "ior-json": ("ior/result.json",),
    "iozone": ("iozone/matrix.txt", "iozone/throughput.txt"),
    "mdtest": ("mdtest/text.txt", "mdtest/times.txt"),
    "mdtest-ranks": ("mdtest/ranks.csv",),
    "nixlbench": ("nixlbench/table.txt",),
    "s5cmd": ("s5cmd/upload.json", "s5cmd/download.txt"),
    "warp": ("warp/get.csv.zst",),
    "warp-series": ("warp/series.csv", "warp/mixed.json"),
}


def record(directory: Path) -> None:
    """Run each of STUDIES in a directory, and pack what it recorded without the host's name."""
    RECORDED.mkdir(exist_ok=True)
    for name, words in STUDIES.items():
        folder = Path(tempfile.mkdtemp(dir=directory))
        for place in ("a", "b", "model"):
            (folder / place).mkdir()
        (folder / "model" / "weights").write_bytes(bytes(range(256)) * 2**18)
        (folder / "peers.yaml").write_text(PEERS)
        study = [] if "peers" in words or "quick" in words else [name]
        command = [sys.executable, "-m", "savemark", "run", *study, *words.split(), "--out", "run"]
        subprocess.run(command, cwd=folder, check=True)
        records = (folder / "run" / "records.jsonl").read_bytes()
        head = json.dumps(json.loads((folder / "run" / "run.json").read_bytes())).encode()
        text = head + b"\n" + records
        for private, public in ((str(folder), "/mnt"), (socket.gethostname(), "host")):
            text = text.replace(private.encode(), public.encode())
        (RECORDED / f"{name}.xz").write_bytes(lzma.compress(text, preset=9))


# The same work by savemark's engine and by a program that others trust.
PEERS = """
name: peers
title: Do two tools agree?
trial: {workload: sequential, operation: read, size: 32MiB, storage: posix, direct: false}
factors: {tool: [savemark, fio], transfer_size: [64KiB, 1MiB]}
"""


if __name__ == "__main__":
    record(Path(sys.argv[1]))
