"""What all comparisons share: samples, rounds in turns, ratios, and goals met or missed."""

import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from savemark import _engine
from savemark.study.order import williams


@dataclass
class Sample:
    """One measurement: bytes and operations per second, and CPU seconds for all of it."""

    seconds: float
    bytes: int
    operations: int
    cpu_s: float
    stored: int = 0


@dataclass
class Side:
    """One of the things compared, with what it did in each round."""

    name: str
    run: Callable[[], Sample]
    samples: list[Sample] = field(default_factory=list)

    def median(self, figure: Callable[[Sample], float]) -> float:
        """The median of a figure over the rounds."""
        return statistics.median(map(figure, self.samples))


def rate(sample: Sample) -> float:
    """GB/s."""
    return sample.bytes / sample.seconds / 1e9


def cpu_per_gb(sample: Sample) -> float:
    """CPU seconds per GB."""
    return sample.cpu_s / sample.bytes * 1e9


def per_cpu(sample: Sample) -> float:
    """Thousands of I/Os per CPU second."""
    return sample.operations / sample.cpu_s / 1e3


def per_core(sample: Sample) -> float:
    """MB of user bytes per CPU second."""
    return sample.bytes / sample.cpu_s / 1e6


def iops(sample: Sample) -> float:
    """Thousands of I/Os per second."""
    return sample.operations / sample.seconds / 1e3


def interleave(sides: list[Side], rounds: int) -> None:
    """All sides once in each round; in as many rounds as sides everyone follows everyone once."""
    for turn in range(rounds + 1):
        for place in order(len(sides), turn):
            sample = sides[place].run()
            if turn:  # the first round warms up
                sides[place].samples.append(sample)


def order(n: int, turn: int) -> list[int]:
    """The order of round `turn`, balanced for what one side leaves behind for the next."""
    rows = williams(n)
    return rows[turn % len(rows)]


def ratio(ours: Side, theirs: Side, figure: Callable[[Sample], float]) -> float:
    """The median of the ratios of each round."""
    pairs = zip(ours.samples, theirs.samples, strict=True)
    return statistics.median(figure(a) / figure(b) for a, b in pairs)


def say(text: str) -> None:
    """A line of the result."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def goal(text: str, value: float, bound: float, *, most: bool = False) -> None:
    """A line that says whether a goal is met, and by how much not."""
    met = value <= bound if most else value >= bound
    sign = "≤" if most else "≥"
    say(f"  {'met   ' if met else 'MISSED'}  {text}: {value:.2f} (goal {sign} {bound:.2f})")


def ours(engine: _engine.Engine, folder: Path, phase: str, **trial: object) -> Sample:
    """One trial of the engine; CPU of the whole process during the phase."""
    record = json.loads(engine.run(json.dumps({"target": str(folder), "seed": 1, **trial})))
    part = next(p for p in record["phases"] if p["name"] == phase)
    cpu_ns = part["cpu_user_ns"] + part["cpu_system_ns"]
    done = (part["user_bytes"], part["operations"], cpu_ns / 1e9, part["stored_bytes"])
    return Sample(part["elapsed_ns"] / 1e9, *done)
