"""Metadata side by side with mdtest and elbencho: in turns, medians, ratios.

    python bench/metadata.py SCRATCH [--rounds 5] [--items 200000]

Two workers, empty files, a directory each, on tmpfs and on the filesystem of SCRATCH. Peers that
are not on PATH are skipped by name; mdtest needs mpirun as well.

Expected before the first run (and why), to be held against what comes out: 1.1 to 1.5 times the
better of both, for each call is relative to an open directory (a path is not walked again), names
are of constant length and made in place, and the clock is read once per call. On ext4 creating is
very noisy; look at the medians of more rounds.
"""

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from peers import elbencho, here, in_memory, mdtest
from sides import goal, say

from savemark import _engine

WORKERS = 2
OPERATIONS = ("create", "stat", "read", "remove")
# The same four by the names of others.
MDTEST = dict(zip(("creation", "stat", "read", "removal"), OPERATIONS, strict=True))
ELBENCHO = dict(zip(("WRITE", "STAT", "READ", "RMFILES"), OPERATIONS, strict=True))

Rates = dict[str, float]


def savemark(engine: _engine.Engine, folder: Path, items: int) -> Rates:
    """Operations per second of ours."""
    trial = {"workload": "metadata", "storage": "posix", "direct": False, "target": str(folder)}
    record = json.loads(engine.run(json.dumps(trial | {"items": items, "workers": WORKERS})))
    phases = {phase["name"]: phase for phase in record["phases"]}
    return {name: items / phases[name]["elapsed_ns"] * 1e9 for name in OPERATIONS}


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
    sides: dict[str, Callable[[], Rates]] = {"savemark": lambda: savemark(engine, folder, items)}
    if here("mdtest", "mpirun"):
        sides["mdtest"] = lambda: by_mdtest(folder, items)
    if here("elbencho"):
        sides["elbencho"] = lambda: by_elbencho(folder, items)
    names = list(sides)
    found: dict[str, list[Rates]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            rates = sides[name]()
            if turn:  # the first round warms up
                found[name].append(rates)
    say(f"{title}: {items} empty files, {WORKERS} workers, k operations per second")
    say(f"  {'':10}" + "".join(f"{name:>9}" for name in OPERATIONS))
    for name, all_rates in found.items():
        medians = [
            statistics.median(rates[each] for rates in all_rates) / 1e3 for each in OPERATIONS
        ]
        say(f"  {name:10}" + "".join(f"{median:9.1f}" for median in medians))
    for operation in OPERATIONS if len(names) > 1 else ():
        ratios = [
            found["savemark"][turn][operation]
            / max(found[name][turn][operation] for name in names[1:])
            for turn in range(rounds)
        ]
        goal(f"{operation} against the better of both", statistics.median(ratios), 1.1)


def main() -> None:
    """Runs both comparisons."""
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
        compare("disk", Path(made), words.items, words.rounds)


if __name__ == "__main__":
    main()
