"""How often the gate is wrong: simulated runs, and real ones of this machine against each other.

    python bench/gate.py SCRATCH [--runs 25] [--size 64m] [--loss 10] [--only simulated,real]

Expected before the first run: equal runs raise an alarm in at most 5 of 100, whether the noise of
a run hits one setting or all of them, with normal values and with heavy tails; a loss of 10 % in
every setting is found in 90 of 100 with five baselines whose runs differ by 2 %, and in nearly all
that were measured in turns, however much runs differ. A loss in one of eight settings is found less
often, and one baseline, which cannot show how runs differ, is fooled by a machine whose runs differ
by more than the 2 % that it assumes.

Real pairs, 25 sessions of two targets each: new against old in turns; and the old side of each
session against those of the five before it, as a pipeline would do it, and against the one before
it. The loss is put into the records' times: real noise, known loss. At most 12 minutes.
"""

import argparse
import math
import random
import tempfile
from dataclasses import replace
from pathlib import Path

from savemark.report.sides import two_targets
from savemark.run.request import Request
from savemark.run.start import start
from savemark.run.target import Target
from savemark.run.watcher import Watcher
from savemark.stats.gate import gate
from savemark.stats.pairs import Key, Times
from savemark.stats.turns import in_turns

Run = dict[Key, Times]
LIMIT = 0.05
STUDY = """\
name: gate
repeats: 10
defaults: {{storage: posix, payload: bf16, size: {size}}}
trial: {{workload: checkpoint}}
factors: {{codec: [none, lz4], streams: [0, 2]}}
checks: {{HC-13: {{block_below: 0}}}}
"""


class Quiet(Watcher):
    """Shows nothing: twenty-five reports would take longer than the runs."""


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--size", default="64m")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--loss", type=float, default=10.0, help="per cent")
    parser.add_argument("--only", default="simulated,real")
    asked = parser.parse_args()
    if "simulated" in asked.only:
        simulated(asked.pairs, asked.loss / 100)
    if "real" in asked.only:
        with tempfile.TemporaryDirectory(dir=asked.scratch) as folder:
            real(Path(folder), asked.runs, asked.size, asked.loss / 100)


def drawn(rng: random.Random, tails: bool) -> float:
    """Noise of deviation 1: normal, or Student's t with 3 degrees of freedom."""
    value = rng.gauss(0, 1)
    if tails:
        value /= math.sqrt(sum(rng.gauss(0, 1) ** 2 for _ in range(3)))
    return value


def made(
    rng: random.Random, cells: int, shaken: list[float], *, own: float, tails: bool = False
) -> Run:
    """A time per cell and repeat, 3 to 5 % within the cell; `shaken` hits all cells of a repeat."""
    times = {}
    for i in range(cells):
        level, sigma = own * drawn(rng, tails), 0.03 + 0.02 * i / cells
        logs = (level + s + sigma * drawn(rng, tails) for s in shaken)
        times[Key("", str(i), "save")] = Times(
            tuple(map(math.exp, logs)), 1, tuple(range(len(shaken)))
        )
    return times


def slowed(run: Run, keys: list[Key], loss: float) -> Run:
    """The same run with some of its cells slower."""
    factor = dict.fromkeys(keys, 1 + loss)
    return {
        key: replace(t, seconds=tuple(s * factor.get(key, 1.0) for s in t.seconds))
        for key, t in run.items()
    }


def simulated(pairs: int, loss: float) -> None:
    """Print alarms of equal runs and of slowed ones, over what the noise may be like."""
    print(f"simulated, {pairs} pairs each, 10 repeats, limit {LIMIT:.0%}: share of runs that fail")
    print(
        f"held against  noise            tails   cells  equal  {loss:.0%} in all  {loss:.0%} in one"
    )
    kinds = (("each its own", 0.02, 0.0), ("shared", 0.0, 0.02), ("shared", 0.0, 0.034))
    for tails in (False, True):
        for baselines in (1, 2, 3, 5, 10, 0):
            for kind, own, shared in kinds:
                if not baselines and own:
                    continue  # in turns there is one run, and no other to differ from
                for cells in (1, 2, 8, 24):
                    rng = random.Random(f"{tails} {baselines} {own} {shared} {cells}")
                    rows = shares(rng, baselines, (cells, own, shared, tails), pairs, loss)
                    of = f"{baselines} runs" if baselines else "in turns"
                    print(
                        f"{of:12}  {own + shared:.1%} {kind:12} {'heavy' if tails else 'normal'}"
                        f"  {cells:5}  " + "  ".join(f"{share:6.1%}" for share in rows),
                        flush=True,
                    )


def shares(
    rng: random.Random,
    baselines: int,
    what: tuple[int, float, float, bool],
    pairs: int,
    loss: float,
) -> list[float]:
    """Shares of failed gates: equal runs, all cells slower, one cell slower."""
    cells, own, shared, tails = what
    failed = [0, 0, 0]
    for _ in range(pairs):

        def run() -> Run:
            hour = shared * drawn(rng, tails)
            return made(rng, cells, [hour] * 10, own=own, tails=tails)

        if baselines:
            old, one = [run() for _ in range(baselines)], run()
            lost = [bool(gate(new, old, LIMIT).lost) for new in variants(one, loss)]
        else:
            # One run whose repeats are shaken as runs are, both sides alike.
            shaken = [shared * drawn(rng, tails) for _ in range(10)]
            base, one = (made(rng, cells, shaken, own=0.0, tails=tails) for _ in range(2))
            lost = [bool(in_turns(base, new, LIMIT).lost) for new in variants(one, loss)]
        failed = [count + each for count, each in zip(failed, lost, strict=True)]
    return [count / pairs for count in failed]


def variants(one: Run, loss: float) -> tuple[Run, Run, Run]:
    """A run as it is, slower in all cells, and slower in the first."""
    keys = list(one)
    return one, slowed(one, keys, loss), slowed(one, keys[:1], loss)


def real(scratch: Path, count: int, size: str, loss: float) -> None:
    """Make real runs, one after the other, and hold each against those before it."""
    study = scratch / "gate.yaml"
    study.write_text(STUDY.format(size=size))
    where = [Target.at(name, str(scratch / name)) for name in ("old", "new")]
    for target in where:
        target.path.mkdir()
    sessions: list[tuple[Run, Run]] = []
    for number in range(count):
        out = scratch / f"run-{number}"
        start(Request(str(study), where, {}, seed=number, out=out), Quiet())
        old, new = (side.measured.times for side in two_targets(out))
        sessions.append((old, new))
    runs, judged = [old for old, _ in sessions], range(5, count)
    print(
        f"real, {len(judged)} pairs, {len(runs[0])} cells, 10 repeats: equal runs that fail, "
        f"and losses of {loss:.0%} found in all cells, in one"
    )
    turns = [
        [bool(in_turns(old, x, LIMIT).lost) for x in variants(new, loss)]
        for old, new in sessions[5:]
    ]
    told("in turns", turns)
    for baselines in (5, 1):
        found = [
            [bool(gate(x, runs[i - baselines : i], LIMIT).lost) for x in variants(runs[i], loss)]
            for i in judged
        ]
        noises = sorted(gate(runs[i], runs[i - 5 : i], LIMIT).noise for i in judged)
        told(f"{baselines} runs", found)
    print(f"noise between runs {noises[len(noises) // 2]:.1%}")


def told(what: str, found: list[list[bool]]) -> None:
    """Print how many of the pairs failed, by what was done to them."""
    sums = [sum(column) for column in zip(*found, strict=True)]
    print(f"{what:10} " + "  ".join(f"{each:3} of {len(found)}" for each in sums))


if __name__ == "__main__":
    main()
