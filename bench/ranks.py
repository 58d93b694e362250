"""Ranks side by side with IOR and mdtest: the same geometry under the same mpirun, in turns.

    python bench/ranks.py SCRATCH [--rounds 5] [--ranks 2,4] [--size 256MiB] [--items 40000]

Needs mpirun of Open MPI, mpi4py, and ior and mdtest that are linked with that Open MPI. Compared
are the rates of one shared file and of a file per rank on the filesystem of SCRATCH and in memory
(read from the page cache, as IOR does), of creating, looking at and removing files in memory, and
what a phase costs that does next to nothing: one transfer of 4 KiB by each rank, with all that
comes before and after it. Both sides make, open, close and remove their files in that; ours also
looks round (counters of the machine, page cache, extents, the bytes written), IOR prints a line.

Ours is told in two ways. `in a row`: trials of the engine one after the other, as IOR repeats its
own; the orders and the merging of records between them are left out, as is the start of IOR.
`in a run`: the same time of trials of `savemark run`, each of which follows milliseconds of Python
(the record is merged, written and synced), so that little of what it needs is left in the caches.

Expected before the first run (and why), to be held against what comes out: rates within the spread
of the repeats, for both make the same calls; memory a little faster (a call has less around it);
metadata 1.1 to 1.5 times, as in one process; starting and ending a phase at most as long as IOR's,
which opens, waits at several barriers and prints between phases, though ours are made in Python.

Found first: 1.24 ms against 0.05. IOR's was the difference of two starts of mpirun over 200 phases,
with a noise of about 0.05 ms: repeated 4000 times it is 0.01 to 0.02 ms. Ours was half the engine's
looks round, which parsed the same files of the kernel again and again, and half seven meetings by
messages of Python. Expected of shared memory: 1 to 3 microseconds for a meeting, so nearly nothing;
of looking up once a second what rarely changes, and of keeping the rest open: a tenth.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from peers import here, in_memory, ior, mdtest, mpirun, process
from sides import goal, say

from savemark import _engine

Rates = dict[str, float]

TRANSFER = 1 << 20
TINY = 4096
# Trials in one start of mpirun, so that what is measured is a phase and not Python's start.
REPEATS = 50
# So many more of IOR's that its phases take longer than its start varies.
MORE = 4000
HERE = Path(__file__).parent


def started(ranks: int, folder: Path, study: str) -> list[dict]:
    """The records of one `savemark run` on several ranks."""
    with tempfile.TemporaryDirectory() as made:
        path, out = Path(made) / "study.yaml", Path(made) / "out"
        path.write_text(study)
        target = folder / "savemark"
        target.mkdir(exist_ok=True)
        words = [sys.executable, "-m", "savemark", "run", path, target, "--out", out, "--json"]
        done = subprocess.run(
            [*mpirun(ranks), *map(str, words)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"savemark failed: {done.stderr[-1000:]}")
        lines = (out / "records.jsonl").read_text().splitlines()
    return [json.loads(line)["record"] for line in lines]


def study(workload: str, repeats: int = 1, **options: object) -> str:
    """A study of one setting."""
    trial = {"workload": workload, "storage": "posix", "direct": False, **options}
    checks = {"HC-13": {"block_below": 0}}
    return json.dumps({"name": "bench", "trial": trial, "repeats": repeats, "checks": checks})


def ours(ranks: int, folder: Path, workload: str, size: int) -> Rates:
    """Bytes per second until the last rank had ended."""
    options = {"block_size": size // ranks, "segments": 1, "transfer_size": TRANSFER}
    options["cache"] = "warm"
    (record,) = started(ranks, folder, study(workload, **options))
    return {p["name"]: p["user_bytes"] / p["elapsed_ns"] * 1e9 for p in record["phases"]}


def by_ior(ranks: int, folder: Path, workload: str, size: int) -> Rates:
    """Bytes per second that IOR says of its transfers; synced, and read by another rank."""
    each = ["-F"] if workload == "file_per_process" else []
    words = ["-w", "-r", "-e", "-C", "-Q", "1", "-b", size // ranks, "-t", TRANSFER]
    found = ior(ranks, *words, *each, "-o", folder / "ior.bin")
    return {name: sample.bytes / sample.seconds for name, sample in found.items()}


def our_names(ranks: int, folder: Path, items: int) -> Rates:
    """Operations per second."""
    (record,) = started(ranks, folder, study("metadata", items=items, neighbour=True))
    rates = {p["name"]: p["operations"] / p["elapsed_ns"] * 1e9 for p in record["phases"]}
    return {name: rates[name] for name in ("create", "stat", "remove")}


def by_mdtest(ranks: int, folder: Path, items: int) -> Rates:
    """Operations per second that mdtest says; each rank looks at what the next one made."""
    words = ["-n", items // ranks, "-u", "-N", 1, "-d", folder / "mdtest"]
    found = mdtest(ranks, *words)
    names = {"creation": "create", "stat": "stat", "removal": "remove"}
    return {ours: found[theirs] for theirs, ours in names.items()}


def our_phase(ranks: int, folder: Path) -> float:
    """Milliseconds of a phase and all that belongs to it: half of a trial that has two."""
    options = {"block_size": TINY, "segments": 1, "transfer_size": TINY, "sync": "none"}
    options["cache"] = "warm"
    records = started(ranks, folder, study("file_per_process", REPEATS, **options))
    return statistics.median(record["elapsed_ns"] for record in records) / 2e6


def our_row(ranks: int, folder: Path) -> float:
    """The same of trials in a row: the longest of the ranks' times, in the middle of all trials."""
    target = folder / "row"
    target.mkdir(exist_ok=True)
    words = [*mpirun(ranks), sys.executable, HERE / "phase_rank.py", target, MORE // 2]
    out, _ = process(*words)
    return float(out.splitlines()[-1]) / 2e6


def ior_phase(ranks: int, folder: Path) -> float:
    """The same of IOR: what more repetitions take longer, start and end of the program left out."""
    words = ["ior", "-a", "POSIX", "-w", "-r", "-C", "-F", "-b", TINY, "-t", TINY]
    words += ["-d", 0, "-o", folder / "ior.bin", "-i"]
    times = []
    for repeats in (REPEATS, REPEATS + MORE):
        began = time.perf_counter()
        process(*mpirun(ranks), *words, repeats)
        times.append(time.perf_counter() - began)
    return (times[1] - times[0]) / MORE / 2 * 1e3


def compare(title: str, sides: dict[str, Callable[[], Rates]], rounds: int, unit: float) -> None:
    """Runs both in turns; prints medians, spread, and the median of the ratios of the rounds."""
    found: dict[str, list[Rates]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(rounds + 1):
        for name in names if turn % 2 else names[::-1]:
            rates = sides[name]()
            if turn:  # the first round warms up
                found[name].append(rates)
    say(title)
    mine, theirs = (found[name] for name in names)
    for phase in mine[0]:
        for name, rates in zip(names, (mine, theirs), strict=True):
            values = sorted(each[phase] / unit for each in rates)
            middle = statistics.median(values)
            say(f"  {phase:8} {name:9} {middle:9.2f}  ({values[0]:.2f} to {values[-1]:.2f})")
        ratios = [one[phase] / other[phase] for one, other in zip(mine, theirs, strict=True)]
        goal(f"{phase} against {names[1]}", statistics.median(ratios), 0.95)


def overhead(ranks: int, folder: Path, rounds: int) -> None:
    """What a phase costs that does next to nothing."""
    sides = (our_phase, our_row, ior_phase)
    found = [[side(ranks, folder) for side in sides] for _ in range(rounds)]
    run, row, ior = (statistics.median(side) for side in zip(*found, strict=True))
    say(f"a phase of one transfer, {ranks} ranks: savemark in a run {run:.3f} ms, in a row")
    say(f"  {row:.3f} ms, IOR {ior:.3f} ms")
    goal("in a row, of IOR's", statistics.median(b / c for _, b, c in found), 1.0, most=True)
    goal("in a run, of IOR's", statistics.median(a / c for a, _, c in found), 1.0, most=True)


def main() -> None:
    """Runs all comparisons."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--size", default="256MiB")
    parser.add_argument("--items", type=int, default=40_000)
    words = parser.parse_args()
    os.environ.setdefault("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    if not (here("ior", "mpirun") and here("mdtest")):
        return
    size = _engine.parse_size(words.size)
    with tempfile.TemporaryDirectory(dir=words.scratch, prefix="savemark-bench-") as made:
        disk = Path(made)
        with in_memory(disk) as memory:
            for ranks in map(int, words.ranks.split(",")):
                for place, folder in (("disk", disk), ("memory", memory)):
                    for workload in ("shared_file", "file_per_process"):
                        title = f"{workload}, {ranks} ranks, {place}, GB/s"
                        job = (ranks, folder, workload, size)
                        sides = {"savemark": partial(ours, *job), "IOR": partial(by_ior, *job)}
                        compare(title, sides, words.rounds, 1e9)
                names = (ranks, memory, words.items)
                sides = {"savemark": partial(our_names, *names)}
                sides["mdtest"] = partial(by_mdtest, *names)
                compare(f"metadata, {ranks} ranks, memory, k op/s", sides, words.rounds, 1e3)
                shutil.rmtree(memory / "mdtest", ignore_errors=True)
                overhead(ranks, memory, words.rounds)


if __name__ == "__main__":
    main()
