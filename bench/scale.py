"""What many ranks cost a trial: measured here, modelled, checked, and extended to 10,000.

    python bench/scale.py [--only exchange,nodes,records] [--rounds 30] [--most 64]

* exchange: barrier, meeting (up and down a tree), memory (the same in shared memory), record
  (gathered and merged up the tree) and clocks (asked along the tree) for 2 to 64 ranks on this
  machine, by the code of savemark/ranks; fitted with a + b·log2 n + c·n.
* nodes: the same over nodes in network namespaces with links that delay (root only), held against
  the model.
* records: 10,000 ranks' records merged, and 3,360 trials of them read and reported.

Expected before the first run (and why): a message costs some 30 µs of Python and MPI, so a barrier
of 10,000 ranks, 14 rounds, takes below 1 ms plus the network's latencies. A merged record has lines
for 64 ranks at most, so it has some 10 KB whatever the ranks. (The first run found that clocks,
asked node by node, took 3 s of 3.1, and were most of a record: they are asked along a tree now.)
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import report

from savemark import _engine
from savemark.ranks import merge
from savemark.ranks.clocks import ROUNDS, Offset

HERE = Path(__file__).parent
ALL = (2, 4, 8, 16, 32, 64)
FAR, TRIALS, PER_NODE = 10_000, 3_360, 8
NAMES = ("barrier", "meeting", "memory", "record", "clocks")
SLOW_BITS = 20_000_000
# One way, in seconds, and bytes per second: of InfiniBand, and of TCP in one hall.
NETWORKS = {"InfiniBand": (2e-6, 10e9), "TCP": (30e-6, 1e9)}
Json = dict[str, Any]
Times = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="exchange,nodes,records")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--most", type=int, default=64, help="ranks on this machine")
    wanted = parser.parse_args()
    only = wanted.only.split(",")
    with tempfile.TemporaryDirectory(prefix="savemark-scale-") as place:
        folder = Path(place)
        record = folder / "record.json"
        record.write_text(json.dumps(one_record(folder)))
        ranks = [n for n in ALL if n <= (wanted.most if "exchange" in only else 2)]
        measured = {n: exchange(here(n), wanted.rounds, record) for n in ranks}
        message_s = measured[2]["barrier"]
        print(f"one message, sent and taken, between two ranks: {message_s * 1e6:.0f} µs\n")
        if "exchange" in only:
            show_exchange(measured, message_s)
        if "nodes" in only:
            show_nodes(folder, record, wanted.rounds)
        if "records" in only:
            sizes = show_records(json.loads(record.read_text()))
            show_far(message_s, sizes)
            show_report(folder, sizes[FAR]["line"])


# --- the exchanges of a trial


def here(ranks: int) -> list[str]:
    """The launcher on this machine, however few processors it has."""
    options = ("--allow-run-as-root", "--oversubscribe", "--bind-to", "none")
    return ["mpirun", *options, "-n", str(ranks)]


def exchange(launcher: list[str], rounds: int, record: Path) -> Times:
    """Seconds of each exchange at the first rank: the least of the rounds, in which none waited."""
    command = [*launcher, sys.executable, HERE / "scale_rank.py", str(rounds), record]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    return least(done.stdout, done.returncode, done.stderr)


def least(out: str, code: int, err: str) -> Times:
    if code:
        raise SystemExit(f"the ranks ended with {code}: {err or out}")
    found = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
    return {name: min(times) for name, times in found.items()}


def fit(measured: dict[int, float]) -> tuple[float, float, float]:
    """The a, b and c ≥ 0 of a + b·log2 n + c·n with the least squares of relative errors."""
    import numpy as np
    from scipy.optimize import nnls

    rows = np.array([[1, math.log2(n), n] for n in measured]) / np.array(
        [[t] for t in measured.values()]
    )
    a, b, c = nnls(rows, np.ones(len(measured)))[0]
    return a, b, c


def show_exchange(measured: dict[int, Times], message_s: float) -> None:
    cores = len(os.sched_getaffinity(0))
    print(f"ms at the first rank, least of the rounds, {cores} processors")
    print(f"| {'ranks':<10} | {' | '.join(f'{n:>7}' for n in measured)} | a + b·log2 n + c·n, µs |")
    print(f"|{'---|' * (len(measured) + 2)}")
    for name in NAMES:
        times = {n: measured[n][name] for n in measured}
        a, b, c = (1e6 * each for each in fit(times))
        cells = " | ".join(f"{1e3 * t:7.2f}" for t in times.values())
        print(f"| {name:<10} | {cells} | {a:.0f} + {b:.0f}·log2 n + {c:.0f}·n |")
    cells = " | ".join(f"{1e3 * shared(n, cores, message_s):7.2f}" for n in measured)
    print(f"| of messages | {cells} | a barrier as n·⌈log2 n⌉ messages on {cores} processors |\n")


def shared(ranks: int, cores: int, message_s: float) -> float:
    """A barrier of more ranks than processors: its messages are work, whoever does it."""
    rounds = math.ceil(math.log2(ranks))
    return rounds * message_s * max(1.0, ranks / cores)


def model(nodes: int, step_s: float) -> Times:
    """Seconds of the exchanges of small messages; a step is a message, with its way.

    Every rank has a processor: then what a tree or a barrier does in a round is done at once. The
    ranks of a node meet in memory; only the first of each sends messages.
    """
    rounds = math.ceil(math.log2(nodes))
    return {
        "barrier": rounds * step_s,
        "meeting": 2 * rounds * step_s,
        "clocks": math.ceil(math.log2(nodes)) * (2 * ROUNDS + 1) * step_s,
    }


def show_nodes(folder: Path, record: Path, rounds: int) -> None:
    """Hold the model against nodes whose links are slow: most of the time is theirs, not ours."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    print("ms over links that delay, one rank on each node: measured / model, whose step is the")
    print("barrier of two nodes over the same links")
    print("| nodes | delay | barrier | meeting | clocks |")
    print("|---|---|---|---|---|")
    for delay_ms in (5, 20):
        step_s = over(folder, 2, record, rounds, delay_s=delay_ms / 1e3)["barrier"]
        for count in (4, 8):
            times = over(folder, count, record, rounds, delay_s=delay_ms / 1e3)
            says = model(count, step_s)
            cells = (f"{1e3 * times[name]:.1f} / {1e3 * says[name]:.1f}" for name in says)
            print(f"| {count} | {delay_ms} ms | {' | '.join(cells)} |")
    print("\nms of gathering the record over links with a token bucket: measured / model")
    print("| nodes | rate | record |")
    print("|---|---|---|")
    steps = tree(json.loads(record.read_text()), 8)
    for count in (4, 8):
        times = over(folder, count, record, rounds, rate=f"{SLOW_BITS}bit", burst="4kb")
        says_s = gathered(steps, count, 0.0, SLOW_BITS / 8)
        cells = f"{SLOW_BITS // 10**6} Mbit/s | {1e3 * times['record']:.1f} / {1e3 * says_s:.1f}"
        print(f"| {count} | {cells} |")
    print()


def over(folder: Path, count: int, record: Path, rounds: int, **links: Any) -> Times:
    """The exchanges of so many nodes with these links."""
    from nodes import Nodes

    own = Path(tempfile.mkdtemp(dir=folder))
    made = Nodes(own, count, **links)
    try:
        made.begin()
        words = (sys.executable, HERE / "scale_rank.py", max(5, rounds // 3), record)
        job = made.mpi("openmpi", count, *words)
        out = made.ended(job)
    finally:
        made.end()
    return least(out, job.returncode, "")


# --- the records


def one_record(folder: Path) -> Json:
    """A real record of one rank, as ranks have it: with its distributions as they were counted."""
    place = {"rank": 0, "ranks": 1, "first_here": 0, "nodes": 1, "per_node": 1}
    trial = {
        "workload": "shared_file",
        "storage": "posix",
        "direct": False,
        "target": str(folder),
        "block_size": 1 << 20,
        "transfer_size": 4096,
        "segments": 4,
    }
    text = _engine.Engine().run(
        json.dumps(trial), None, None, json.dumps(place), lambda _at, numbers, _failure: numbers
    )
    found: Json = json.loads(text)
    return found


def of_rank(record: Json, rank: int, rng: random.Random) -> Json:
    """The record of another rank: its own times, and latencies that lie a little elsewhere."""
    phases = []
    for phase in record["phases"]:
        slower = rng.lognormvariate(0, 0.05)
        times = {k: int(phase[k] * slower) for k in ("elapsed_ns", "first_done_ns", "last_done_ns")}
        histograms = dict(phase["histograms"])
        for name in ("latency", "sync_latency"):
            values = [int(v * slower) for v in histograms[name]["values"]]
            histograms[name] = {
                **histograms[name],
                "values": [v - v % (1 << max(0, v.bit_length() - 11)) for v in values],
            }
        phases.append({**phase, **times, "histograms": histograms})
    left = {phase["name"]: 10**9 + rng.randrange(10**5) for phase in phases}
    return merge.prepare(
        {**record, "phases": phases}, rank // PER_NODE, f"kernel {rank // PER_NODE}", left
    )


def tree(record: Json, ranks: int) -> dict[int, Json]:
    """Merge as a tree does; by how many are merged: what that step takes on the first rank."""
    rng, steps = random.Random(1), {}

    def merged(first: int, count: int) -> Json:
        if count == 1:
            return of_rank(record, first, rng)
        half = 1 << (count - 1).bit_length() - 1
        one, other = merged(first, half), merged(first + half, count - half)
        began = time.process_time()
        sent = pickle.dumps(other, pickle.HIGHEST_PROTOCOL)
        whole = merge.merge(one, pickle.loads(sent))
        if first == 0:
            steps[count] = {"seconds": time.process_time() - began, "bytes": len(sent)}
            steps[count]["line"] = line(whole, count)
        return whole

    merged(0, ranks)
    return steps


def gathered(steps: dict[int, Json], ranks: int, step_s: float, bytes_per_s: float) -> float:
    """Seconds until the first rank has the records of all: each step waits for the one before."""
    return sum(
        each["seconds"] + step_s + each["bytes"] / bytes_per_s
        for count, each in steps.items()
        if count <= ranks
    )


def show_records(record: Json) -> dict[int, Json]:
    steps = tree(record, FAR)
    print(
        "| ranks | bytes of the last message | CPU of taking and merging it, ms | bytes of a line |"
    )
    print("|---|---|---|---|")
    for count, step in steps.items():
        if count in (2, 64, 512, 4096, FAR):
            size = len(json.dumps(step["line"]))
            print(f"| {count} | {step['bytes']} | {1e3 * step['seconds']:.2f} | {size} |")
    print()
    return steps


def line(whole: Json, ranks: int) -> Json:
    """The record as it is kept: machines that started at different times differ by days."""
    nodes = -(-ranks // PER_NODE)
    clocks = [Offset(n * 10**12, 20_000) for n in range(nodes)]
    names = [f"node{n:04}" for n in range(nodes)]
    found = merge.complete(whole, clocks, clocks, names)
    kept = [[offset.ns, offset.error_ns] for offset in clocks]
    return found | ({"clocks": {"before": kept, "after": kept}} if nodes <= merge.LINES else {})


def show_far(message_s: float, steps: dict[int, Json]) -> None:
    """What a trial of two phases costs on 10,000 ranks of which each has a processor."""
    print(f"ms of a trial with two phases, {PER_NODE} ranks on each node, a processor for each")
    print("| ranks | network | 2 barriers | 7 meetings | record | clocks, twice | in all |")
    print("|---|---|---|---|---|---|---|")
    for ranks in (64, 512, 4096, FAR):
        for network, (one_way_s, bytes_per_s) in NETWORKS.items():
            step_s = message_s + one_way_s
            says = model(-(-ranks // PER_NODE), step_s)
            record = gathered(steps, ranks, step_s, bytes_per_s)
            parts = [2 * says["barrier"], 7 * says["meeting"], record, 2 * says["clocks"]]
            cells = " | ".join(f"{1e3 * part:.1f}" for part in [*parts, sum(parts)])
            print(f"| {ranks} | {network} | {cells} |")
    print()


def show_report(folder: Path, record: Json) -> None:
    """Read 3,360 trials of 10,000 ranks and make their report."""
    run = folder / "run"
    report.make(run, TRIALS // 10, 10)
    old = (run / "records.jsonl").read_text().splitlines()
    with (run / "records.jsonl").open("w") as file:
        file.writelines(lines(old, record))
    size = (run / "records.jsonl").stat().st_size
    seconds, cpu_s, peak = report.build(run)
    each = f"{size / TRIALS:.0f} bytes each, {size / 1e6:.0f} MB in all"
    print(f"{TRIALS} trials of {FAR} ranks: {each}")
    print(f"report: {seconds:.1f} s (CPU {cpu_s:.1f} s), peak {peak / 2**30:.2f} GiB")


def lines(old: list[str], record: Json) -> Iterator[str]:
    """The trials' own lines with the record of 10,000 ranks, each with its own time."""
    rng = random.Random(2)
    for text in old:
        entry = json.loads(text)
        slower = rng.lognormvariate(0, 0.03)
        phases = [
            {**phase, **{k: int(phase[k] * slower) for k in ("elapsed_ns", "last_done_ns")}}
            for phase in record["phases"]
        ]
        trial = {**record["trial"], **entry["factors"]}
        entry["record"] = {**record, "phases": phases, "trial": trial}
        yield json.dumps(entry, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    main()
