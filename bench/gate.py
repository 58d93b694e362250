"""How often the gate is wrong: simulated runs, and real ones of this machine against each other.

    python bench/gate.py SCRATCH [--runs 25] [--size 64m] [--only simulated,real]

Expected before the first run: equal runs raise an alarm in at most 5 of 100, whether the noise of
a run hits one setting or all of them; a loss of 10 % in every setting is found in 90 of 100 with
five baselines and ten repeats. A loss in one of eight settings is found less often, and one
baseline, which cannot show how runs differ, finds less and is fooled by a machine whose runs differ
by more than the 2 % that it assumes.

Real pairs: each run is held against the five before it, as a pipeline would do it, and against
the one before it. The loss of 10 % is put into the records' times: real noise, known loss.
"""

import argparse
import math
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from savemark.records import read_run
from savemark.run.request import Request
from savemark.run.start import start
from savemark.run.target import Target
from savemark.run.watcher import Watcher
from savemark.stats import results
from savemark.stats.gate import gate
from savemark.stats.pairs import Key, Times, measured

Run = dict[Key, Times]
LIMIT = 0.05
STUDY = """\
name: gate
repeats: 10
defaults: {{storage: posix, payload: bf16, size: {size}}}
trial: {{workload: checkpoint}}
factors: {{codec: [none, lz4], streams: [0, 2]}}
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
    parser.add_argument("--only", default="simulated,real")
    asked = parser.parse_args()
    if "simulated" in asked.only:
        simulated(asked.pairs)
    if "real" in asked.only:
        with tempfile.TemporaryDirectory(dir=asked.scratch) as folder:
            real(Path(folder), asked.runs, asked.size)


def made(rng: random.Random, cells: int, *, shared: bool, noise: float) -> Run:
    """Ten log-normal times per cell: 3 to 5 % within a run, `noise` between runs."""
    hour, times = rng.gauss(0, noise), {}
    for i in range(cells):
        level = hour if shared else rng.gauss(0, noise)
        sigma = 0.03 + 0.02 * i / cells
        seconds = tuple(math.exp(level + rng.gauss(0, sigma)) for _ in range(10))
        times[Key("", str(i), "save")] = Times(seconds, 1)
    return times


def slowed(run: Run, keys: list[Key], loss: float = 0.1) -> Run:
    """The same run with some of its cells slower."""
    factor = dict.fromkeys(keys, 1 + loss)
    return {
        key: Times(tuple(s * factor.get(key, 1.0) for s in t.seconds), t.user_bytes)
        for key, t in run.items()
    }


def simulated(pairs: int) -> None:
    """Print alarms of equal runs and of slowed ones, over what the noise may be like."""
    print(f"simulated, {pairs} pairs each, 10 repeats, limit {LIMIT:.0%}: share of runs that fail")
    print("baselines  noise between runs  cells   equal   10 % in all   10 % in one")
    for baselines in (1, 3, 5, 10):
        for noise, shared in ((0.005, False), (0.02, False), (0.02, True), (0.05, True)):
            for cells in (2, 8, 24):
                rng = random.Random(f"{baselines} {noise} {shared} {cells}")

                def new(
                    rng: random.Random = rng,
                    cells: int = cells,
                    shared: bool = shared,
                    noise: float = noise,
                ) -> Run:
                    return made(rng, cells, shared=shared, noise=noise)

                rows = shares(new, baselines, pairs)
                kind = "shared" if shared else "each its own"
                print(
                    f"{baselines:9}  {noise:5.1%} {kind:12}  {cells:5}   "
                    + "   ".join(f"{share:5.1%}      " for share in rows)
                )


def shares(new: Callable[[], Run], baselines: int, pairs: int) -> list[float]:
    """Shares of failed gates: equal runs, all cells slower, one cell slower."""
    failed = [0, 0, 0]
    for _ in range(pairs):
        old, one = [new() for _ in range(baselines)], new()
        keys = list(one)
        for place, run in enumerate((one, slowed(one, keys), slowed(one, keys[:1]))):
            failed[place] += bool(gate(run, old, LIMIT).lost)
    return [count / pairs for count in failed]


def real(scratch: Path, count: int, size: str) -> None:
    """Make real runs, one after the other, and hold each against those before it."""
    study, target = scratch / "gate.yaml", scratch / "target"
    study.write_text(STUDY.format(size=size))
    target.mkdir()
    runs: list[Run] = []
    for number in range(count):
        out = scratch / f"run-{number}"
        where = [Target.at("target", str(target))]
        start(Request(str(study), where, {}, seed=number, out=out), Quiet())
        runs.append(measured(results(read_run(out))).times)
    for baselines in (5, 1):
        judged = [(runs[i], runs[i - baselines : i]) for i in range(5, count)]
        alarms = sum(bool(gate(one, old, LIMIT).lost) for one, old in judged)
        found = sum(bool(gate(slowed(one, list(one)), old, LIMIT).lost) for one, old in judged)
        noises = sorted(gate(one, old, LIMIT).noise for one, old in judged)
        print(
            f"real, {len(judged)} pairs, {len(runs[0])} cells, {baselines} baseline"
            f"{'s' * (baselines > 1)}: {alarms} alarms, {found} of {len(judged)} losses of 10 % "
            f"found; noise between runs {noises[len(noises) // 2]:.1%}"
        )


if __name__ == "__main__":
    main()
