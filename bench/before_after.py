"""Two savemarks against each other: what a change cost in speed, or gained.

    python bench/before_after.py BEFORE AFTER SCRATCH [--rounds 6] [--size 512] [--only run,object]

BEFORE and AFTER are virtual environments with a savemark in each, or the Pythons in them. Each side
is a process that lives all the time and runs one trial after the other, so that what counts is the
engine alone. In each round every load runs on every side: before, before again (A/A) and after, in
an order that is balanced for what one leaves behind for the next (`sides.py`). Each sample starts
in an empty directory, on a disk that is at rest. The first round warms up.

Shown are medians over the rounds of the ratios within a round, and their least and greatest:
`again` is before over itself, which is the noise; `after` is after over before. Rates above 1 are
faster, CPU above 1 is dearer (per byte, or per I/O where I/Os count). A load that one side does not
know is named and left out. `object` needs `minio` on PATH.

Expected before a run: `again` within 3 % of 1 for loads in memory, 10 % on a virtual disk. An
`after` that lies inside the range of `again` shows nothing.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from object import minio
from sides import Sample, order, say

# A side: a trial a line comes in, its record or its error goes out.
SIDE = """
import json, sys
import savemark._engine as engine
one = engine.Engine()
for line in sys.stdin:
    try:
        print(json.dumps({"record": json.loads(one.run(line))}), flush=True)
    except engine.EngineError as error:
        print(json.dumps({"error": str(error)}), flush=True)
"""
NAMES = ("before", "again", "after")
# A disk is at rest when nothing was written for so long, and is waited for this long at most.
REST_S, MOST_S = 0.5, 30.0


@dataclass
class Load:
    """One trial and the phase of it that counts; `counted` where I/Os count, not bytes."""

    name: str
    phase: str
    trial: dict[str, Any]
    counted: bool = False
    samples: dict[str, list[Sample]] = field(default_factory=lambda: {name: [] for name in NAMES})
    error: str = ""

    def rate(self, sample: Sample) -> float:
        """Bytes, or I/Os, per second."""
        return (sample.operations if self.counted else sample.bytes) / sample.seconds

    def cost(self, sample: Sample) -> float:
        """CPU seconds per byte, or per I/O."""
        return sample.cpu_s / (sample.operations if self.counted else sample.bytes)

    def ratios(self, name: str, figure: Callable[[Sample], float]) -> str:
        """The median of the ratios to `before`, round by round, with the least and the greatest."""
        pairs = zip(self.samples[name], self.samples["before"], strict=True)
        found = [figure(a) / figure(b) if figure(b) else 1.0 for a, b in pairs]
        return f"{statistics.median(found):5.2f} [{min(found):4.2f} {max(found):4.2f}]"


def block(size: int) -> list[Load]:
    """What bench/block.py runs: random and sequential I/O, and calls that move no data."""
    base = {"size": size, "seed": 1}
    random = {"workload": "random", "duration": "2s", "operation": "read", **base}
    deep = {**random, "storage": "uring", "queue_depth": 128}
    null = {"workload": "sequential", "storage": "null", "operation": "write", **base}
    loads = [Load("random read, depth 128", "read", deep, counted=True)]
    loads += [Load("write to no storage", "write", null)]
    for operation in ("write", "read"):
        trial = {"workload": "sequential", "storage": "uring", "operation": operation, **base}
        loads.append(Load(f"sequential {operation}", operation, {**trial, "queue_depth": 8}))
    return loads


def checkpoints(size: int) -> list[Load]:
    """What bench/run.py runs: saves, restores and codecs."""
    loads = []
    for codec in ("none", "lz4", "zstd"):
        trial = {"workload": "checkpoint", "storage": "uring", "codec": codec, "streams": 4}
        trial |= {"size": size, "seed": 1}
        loads += [Load(f"{phase} {codec}", phase, trial) for phase in ("save", "restore")]
    for codec in ("planes", "lz4"):
        trial = {"workload": "codec", "storage": "null", "codec": codec, "size": size // 4}
        loads += [Load(f"{phase} {codec}", phase, trial) for phase in ("encode", "decode")]
    return loads


def objects(size: int) -> list[Load]:
    """What bench/object.py runs through the engine: whole objects, and a checkpoint in a bucket."""
    base = {"storage": "object", "size": size // 2, "seed": 1}
    trial = {"workload": "checkpoint", "codec": "none", "streams": 2, **base}
    return [Load(f"object {phase}", phase, trial) for phase in ("save", "restore")]


class Engine:
    """A side: a process of the Python of one environment."""

    def __init__(self, python: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [str(python), "-c", SIDE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
            text=True,
        )

    def run(self, trial: dict[str, Any], phase: str) -> Sample | str:
        """Run a trial; return the sample of a phase, or the error."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(trial) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"error": "the process has ended"}')
        if "error" in answer:
            return str(answer["error"])
        part = next(each for each in answer["record"]["phases"] if each["name"] == phase)
        cpu_s = (part["cpu_user_ns"] + part["cpu_system_ns"]) / 1e9
        return Sample(part["elapsed_ns"] / 1e9, part["user_bytes"], part["operations"], cpu_s)

    def end(self) -> None:
        """Let it end."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def python_of(place: Path) -> Path:
    """Return the Python of a virtual environment, or what is one already."""
    python = place / "bin" / "python" if place.is_dir() else place
    if not python.exists():
        raise SystemExit(f"{place}: no virtual environment, and no Python")
    return python


def written(folder: Path) -> int:
    """Return how much the disk below a folder has written, in sectors; 0 where nobody counts."""
    number = folder.stat().st_dev
    stat = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat")
    return int(stat.read_text().split()[6]) if stat.exists() else 0


def rest(folder: Path) -> None:
    """Wait until nothing is written to the disk any more."""
    os.sync()
    end, before = time.monotonic() + MOST_S, -1
    while before != (now := written(folder)) and time.monotonic() < end:
        before = now
        time.sleep(REST_S)


@contextmanager
def place(load: Load, scratch: Path, number: int) -> Iterator[str]:
    """An empty place for one sample."""
    if load.trial["storage"] == "object":
        yield f"s3://bench/sample-{number}"
        return
    folder = scratch / f"sample-{number}"
    folder.mkdir()
    try:
        yield str(folder)
    finally:
        shutil.rmtree(folder)


def measure(loads: list[Load], sides: dict[str, Engine], scratch: Path, rounds: int) -> None:
    """Run all loads on all sides, in turns."""
    number = 0
    for turn in range(rounds + 1):
        for load in loads:
            for at in order(len(NAMES), turn):
                if load.error:
                    continue
                name, number = NAMES[at], number + 1
                rest(scratch)
                with place(load, scratch, number) as target:
                    found = sides[name].run({**load.trial, "target": target}, load.phase)
                if isinstance(found, str):
                    load.error = f"{name}: {found}"
                elif turn:
                    load.samples[name].append(found)
        say(f"round {turn} of {rounds}")


def show(loads: list[Load]) -> None:
    """Print a line per load."""
    say(f"{'':24} {'before':>10}  {'rate again':17} {'rate after':17} {'CPU again':17} CPU after")
    for load in loads:
        if load.error:
            say(f"{load.name:24} left out: {load.error}")
            continue
        middle = statistics.median(map(load.rate, load.samples["before"]))
        unit = f"{middle / 1e3:5.0f} k/s" if load.counted else f"{middle / 1e9:5.2f} GB/s"
        columns = [load.ratios(name, each) for each in (load.rate, load.cost) for name in NAMES[1:]]
        say(f"{load.name:24} {unit:>10}  " + " ".join(f"{column:17}" for column in columns))


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--size", type=int, default=512, help="MiB of each load")
    parser.add_argument("--only", default="block,run,object")
    asked = parser.parse_args()
    size, loads = asked.size << 20, []
    kinds = {"block": block, "run": checkpoints, "object": objects}
    wanted = [name for name in kinds if name in asked.only.split(",")]
    if "object" in wanted and shutil.which("minio") is None:
        say("object: left out, minio is not on PATH")
        wanted.remove("object")
    for name in wanted:
        loads += kinds[name](size)
    pythons = dict(zip(NAMES, (asked.before, asked.before, asked.after), strict=True))
    with ExitStack() as stack:
        made = stack.enter_context(
            tempfile.TemporaryDirectory(dir=asked.scratch, prefix="savemark-bench-")
        )
        environment = {}
        if "object" in wanted:
            (Path(made) / "minio").mkdir()
            environment = stack.enter_context(minio(Path(made) / "minio")).environment()
        sides = {name: Engine(python_of(each), environment) for name, each in pythons.items()}
        for side in sides.values():
            stack.callback(side.end)
        measure(loads, sides, Path(made), asked.rounds)
        show(loads)


if __name__ == "__main__":
    main()
