"""Metadata side by side with mdtest and elbencho: in turns, medians, ratios.

    python bench/metadata.py SCRATCH [--rounds 5] [--items 200000]

Two workers, empty files, a directory each, on tmpfs, on a new ext4 in a file on SCRATCH (root
only), and on the filesystem of SCRATCH. Nobody renames. Peers that are not on PATH are skipped by
name; mdtest needs mpirun as well.

Expected before the first run (and why), to be held against what comes out: 1.1 to 1.5 times the
better of both, for each call is relative to an open directory (a path is not walked again), names
are of constant length and made in place, and the clock is read once per call.

What bounds all of them is under each table: CPU time per call of ours, and how much of it is the
kernel's. Who does the same calls cannot have less than that.

On an ext4 without a journal making files is bound by something else: the kernel does not use inodes
again that were removed in the last minutes (its `recently_deleted`), and looks at all of them for
each file. From the second round on that is 60 times the work of making one, for everybody; the
first round is shown beside it, and no goal is held against it.
"""

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from peers import elbencho, here, in_memory, mdtest, on_ext4
from sides import goal, order, say

from savemark import _engine

WORKERS = 2
OPERATIONS = ("create", "stat", "read", "remove")
# The same four by the names of others.
MDTEST = dict(zip(("creation", "stat", "read", "removal"), OPERATIONS, strict=True))
ELBENCHO = dict(zip(("WRITE", "STAT", "READ", "RMFILES"), OPERATIONS, strict=True))

Rates = dict[str, float]


@dataclass
class Ours:
    """One run of ours."""

    rates: Rates
    cpu_us: Rates  # per operation
    kernel: Rates  # its share of that
    guarded: bool  # whether removed inodes are not used again for a while


def run_ours(engine: _engine.Engine, folder: Path, items: int, workers: int = WORKERS) -> Ours:
    """One run, with what it says of itself."""
    trial = {"workload": "metadata", "storage": "posix", "direct": False, "target": str(folder)}
    trial |= {"items": items, "workers": workers, "rename": False}
    phases = {p["name"]: p for p in json.loads(engine.run(json.dumps(trial)))["phases"]}
    cpu = {n: phases[n]["cpu_user_ns"] + phases[n]["cpu_system_ns"] for n in OPERATIONS}
    return Ours(
        {name: items / phases[name]["elapsed_ns"] * 1e9 for name in OPERATIONS},
        {name: cpu[name] / items / 1e3 for name in OPERATIONS},
        {name: phases[name]["cpu_system_ns"] / max(cpu[name], 1) for name in OPERATIONS},
        any("no journal" in note for note in phases["create"]["notes"]),
    )


def savemark(engine: _engine.Engine, folder: Path, items: int) -> Rates:
    """Operations per second of ours."""
    return run_ours(engine, folder, items).rates


def by_mdtest(folder: Path, items: int) -> Rates:
    """Operations per second that mdtest says."""
    found = mdtest(WORKERS, "-n", items // WORKERS, "-u", "-d", folder / "mdtest")
    return {ours: found[theirs] for theirs, ours in MDTEST.items()}


def by_elbencho(folder: Path, items: int) -> Rates:
    """Operations per second that elbencho says until its last thread had ended."""
    target = folder / "elbencho"
    target.mkdir(exist_ok=True)
    words = ["-d", "-w", "--stat", "-r", "-F", "-D", "-n1", "-s0", f"-t{WORKERS}"]
    found = elbencho(*words, f"-N{items // WORKERS}", target)
    shutil.rmtree(target, ignore_errors=True)
    return {ours: items / found[theirs].seconds for theirs, ours in ELBENCHO.items()}


def compare(title: str, folder: Path, items: int, rounds: int) -> None:
    """Runs all in turns, and holds us against the better of the others, operation by operation."""
    engine = _engine.Engine()
    own: list[Ours] = []

    def us() -> Rates:
        own.append(run_ours(engine, folder, items))
        return own[-1].rates

    sides: dict[str, Callable[[], Rates]] = {"savemark": us}
    if here("mdtest", "mpirun"):
        sides["mdtest"] = lambda: by_mdtest(folder, items)
    if here("elbencho"):
        sides["elbencho"] = lambda: by_elbencho(folder, items)
    names = list(sides)
    found: dict[str, list[Rates]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        for name in [names[place] for place in order(len(names), turn)]:
            rates = sides[name]()
            if turn:  # the first round warms up
                found[name].append(rates)
    say(f"{title}: {items} empty files, {WORKERS} workers, k operations per second")
    say(f"  {'':12}" + "".join(f"{name:>9}" for name in OPERATIONS))
    for name, all_rates in found.items():
        medians = [
            statistics.median(rates[each] for rates in all_rates) / 1e3 for each in OPERATIONS
        ]
        row(name, medians)
    bounds(engine, folder, items, own)
    if own[0].guarded:
        say("  no goals: this ext4 has no journal, and create is bound as it is said above")
        return
    for operation in OPERATIONS if len(names) > 1 else ():
        ratios = [
            found["savemark"][turn][operation]
            / max(found[name][turn][operation] for name in names[1:])
            for turn in range(rounds)
        ]
        goal(f"{operation} against the better of both", statistics.median(ratios), 1.1)


def row(name: str, figures: Iterable[float]) -> None:
    """A line of the table."""
    say(f"  {name:12}" + "".join(f"{figure:9.1f}" for figure in figures))


def bounds(engine: _engine.Engine, folder: Path, items: int, own: list[Ours]) -> None:
    """What no program can be below: the kernel's part, and one worker beside two."""
    alone = run_ours(engine, folder, items, workers=1)
    row("one worker", (alone.rates[name] / 1e3 for name in OPERATIONS))
    if own[0].guarded:
        row("first round", (own[0].rates[name] / 1e3 for name in OPERATIONS))
    of = own[1:]
    row("CPU µs/op", (statistics.median(o.cpu_us[name] for o in of) for name in OPERATIONS))
    shares = (statistics.median(o.kernel[name] for o in of) * 100 for name in OPERATIONS)
    row("% in kernel", shares)


def main() -> None:
    """Runs the comparisons."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--items", type=int, default=200_000)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=words.scratch, prefix="savemark-bench-") as made:
        with in_memory(Path(made)) as folder:
            compare("tmpfs", folder, words.items, words.rounds)
        with on_ext4(Path(made), words.items) as folder:
            if folder:
                compare("a new ext4 with its journal", folder, words.items, words.rounds)
        guarded = run_ours(_engine.Engine(), Path(made), items=10).guarded
        # There 200,000 files take a minute and a half, each time.
        sizes = (min(words.items, 20_000), 2) if guarded else (words.items, words.rounds)
        compare("disk", Path(made), *sizes)


if __name__ == "__main__":
    main()
