"""How often equal settings are told apart, and how often unequal ones: simulated runs.

    python bench/ties.py [--runs 1000] [--settings 2,4,8,24,120,336] [--repeats 3,5,6,10,30]

Expected before the first run: of equal settings any is called slower than the best in at most 5 of
100 runs, whatever their noise, for 2 to 336 settings and 3 to 30 repeats. A difference of 10 % is
found nearly always among 24 settings with 10 repeats of 4 % noise; 3 repeats of 336 settings can
tell nothing apart. Where the run says which difference it would show in 4 of 5, it does so. Of the
intervals of the settings' times over the best's (`stats/equivalence.py`, 6 repeats and more) any
misses the truth in at most 5 of 100 runs.

Noise is 4 % (standard deviation of logarithms) unless it says otherwise. Power: half of the
settings are slower by 5, 10 and 20 %; the share of them that are called so. Told: the same for the
difference that the group itself calls findable. Runs of 120 and 336 settings are a fifth as many.
"""

import argparse
import math
import time

import numpy as np

from savemark.stats.equivalence import against_best
from savemark.stats.repeats import ALPHA
from savemark.stats.spread import N_FOR_INTERVAL
from savemark.stats.ties import group_of_best

SIGMA = 0.04
LOSSES = (0.05, 0.10, 0.20)


def normal(rng: np.random.Generator, k: int, n: int) -> np.ndarray:
    """Logarithms of times whose noise is alike: the times are log-normal."""
    return rng.normal(0, SIGMA, (k, n))


def wide(rng: np.random.Generator, k: int, n: int) -> np.ndarray:
    """Log-normal times whose tail is long: a deviation of 30 %."""
    return rng.normal(0, 0.3, (k, n))


def linear(rng: np.random.Generator, k: int, n: int) -> np.ndarray:
    """Times that are normal themselves, with a deviation of 10 %."""
    return np.log(np.maximum(1 + rng.normal(0, 0.1, (k, n)), 0.1))


def unequal(rng: np.random.Generator, k: int, n: int) -> np.ndarray:
    """The noisiest setting has five times the noise of the quietest."""
    return normal(rng, k, n) * np.linspace(1, 5, k)[:, np.newaxis]


def one_noisy(rng: np.random.Generator, k: int, n: int) -> np.ndarray:
    """One setting has five times the noise of the others."""
    return normal(rng, k, n) * np.where(np.arange(k) == 0, 5, 1)[:, np.newaxis]


def one_quiet(rng: np.random.Generator, k: int, n: int) -> np.ndarray:
    """All settings but one have five times its noise."""
    return normal(rng, k, n) * np.where(np.arange(k) == 0, 1, 5)[:, np.newaxis]


def drift(rng: np.random.Generator, k: int, n: int) -> np.ndarray:
    """Every repeat is slower than the one before, by a third in the end."""
    return normal(rng, k, n) + np.linspace(0, 0.3, n)


def outliers(rng: np.random.Generator, k: int, n: int) -> np.ndarray:
    """One time in twenty is longer, by half on average."""
    return normal(rng, k, n) + (rng.random((k, n)) < 0.05) * rng.exponential(0.5, (k, n))


def unequal_outliers(rng: np.random.Generator, k: int, n: int) -> np.ndarray:
    """Both."""
    return unequal(rng, k, n) + outliers(rng, k, n)


def two_states(rng: np.random.Generator, k: int, n: int) -> np.ndarray:
    """Each time is in one of two states, 10 % apart, with a tenth of the noise."""
    return normal(rng, k, n) / 10 + 0.1 * (rng.random((k, n)) < 0.5)


def bursts(rng: np.random.Generator, k: int, n: int) -> np.ndarray:
    """Now and then five trials in a row, on average, take a third longer."""
    ends, starts = rng.random(k * n) < 0.2, rng.random(k * n) < 0.05
    on, busy = False, []
    for start, end in zip(starts, ends, strict=True):
        on = bool(start or (on and not end))
        busy.append(0.3 * on)
    return normal(rng, k, n) + placed(rng, np.array(busy), k)


def wandering(rng: np.random.Generator, k: int, n: int) -> np.ndarray:
    """The place becomes slower and faster, by about 2 % from trial to trial."""
    return normal(rng, k, n) + placed(rng, np.cumsum(rng.normal(0, 0.02, k * n)), k)


def placed(rng: np.random.Generator, by_time: np.ndarray, k: int) -> np.ndarray:
    """Return settings × repeats of what came by time; each repeat ran in a random order."""
    return np.array([rng.permutation(block) for block in by_time.reshape(-1, k)]).T


NOISES = (normal, wide, linear, unequal, one_noisy, one_quiet, drift, outliers, unequal_outliers,
          two_states, bursts, wandering)  # fmt: skip


def slower(logs: np.ndarray) -> set[int]:
    """Return the settings that are called slower than the best."""
    found = group_of_best([dict(enumerate(np.exp(row))) for row in logs])
    return set(range(len(logs))) - {found.best, *found.tied}


def missed(logs: np.ndarray) -> bool:
    """Return whether an interval of a setting's time over the best's misses that they are equal."""
    others = against_best([dict(enumerate(np.exp(row))) for row in logs]).others
    return any(each is not None and not each.low <= 0 <= each.high for each in others)


def power(logs: np.ndarray, loss: float) -> float:
    """Return the share of the slower half that is called so."""
    half = len(logs) // 2
    changed = logs.copy()
    changed[half:] += math.log1p(loss)
    return len([i for i in slower(changed) if i >= half]) / (len(logs) - half)


def finds_difference(logs: np.ndarray) -> float:
    """Return the power for the difference that the run itself says it would show."""
    findable = group_of_best([dict(enumerate(np.exp(row))) for row in logs]).findable
    return power(logs, findable) if findable is not None else math.nan


def interval(bad: float, runs: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927)."""
    z2, share = 1.96**2, bad / runs
    middle, half = (
        share + z2 / 2 / runs,
        1.96 * math.sqrt(share * (1 - share) / runs + z2 / 4 / runs**2),
    )
    return max(0.0, middle - half) / (1 + z2 / runs), (middle + half) / (1 + z2 / runs)


def main() -> None:
    """Print a line per noise, repeats and settings; fail where a rate is shown to be above 5 %."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--settings", default="2,4,8,24,120,336")
    parser.add_argument("--repeats", default="3,5,6,10,30")
    asked = parser.parse_args()
    losses = "  ".join(f"{loss:4.0%}" for loss in LOSSES)
    print(
        "repeats  settings  noise             wrongly slower       intervals miss        "
        f"power: {losses}  told     s"
    )
    failed = False
    for n in map(int, asked.repeats.split(",")):
        for k in map(int, asked.settings.split(",")):
            for noise in NOISES:
                rng = np.random.default_rng([n, k, NOISES.index(noise)])
                runs = asked.runs if k < 100 else max(1, asked.runs // 5)
                start = time.perf_counter()
                bad = sum(bool(slower(noise(rng, k, n))) for _ in range(runs))
                seconds = (time.perf_counter() - start) / runs
                low, high = interval(bad, runs)
                wrong = math.nan
                if n >= N_FOR_INTERVAL:
                    wrong = sum(missed(noise(rng, k, n)) for _ in range(runs))
                low_missed, high_missed = interval(wrong, runs)
                above = low > ALPHA or low_missed > ALPHA
                failed |= above
                some = [noise(rng, k, n) for _ in range(max(1, runs // 10))]
                found = [float(np.mean([power(each, loss) for each in some])) for loss in LOSSES]
                shown = float(np.mean([finds_difference(each) for each in some]))
                print(
                    f"{n:7}  {k:8}  {noise.__name__:16}  {bad / runs:6.1%} "
                    f"[{low:5.1%} {high:5.1%}]  {wrong / runs:6.1%} "
                    f"[{low_missed:5.1%} {high_missed:5.1%}]         "
                    + "  ".join(f"{share:4.0%}" for share in found)
                    + f"  {shown:4.0%} {seconds:5.3f}{'  ABOVE 5 %' * above}",
                    flush=True,
                )
    if failed:
        raise SystemExit("equal settings are told apart in more than 5 of 100 runs")


if __name__ == "__main__":
    main()
