"""Saving a running program: CRIU's stream through the engine, against CRIU's own files.

    python bench/process.py SCRATCH [--rounds 5] [--size 1GiB]

Needs CRIU 4.2 and root; for the part about buckets `minio` and `aws` on PATH. One process that
holds random bytes is saved, killed, restored from a cold cache and asked for its checksum, in turn:

* `stream`: through the engine, four streams; what `savemark save --pid` does.
* `images`: `criu dump` to files on the same disk, then syncfs; `criu restore` from them.
* `tmpfs`: `criu dump` to files in memory, then saved by four streams; restored the same way.
* MinIO: `stream` against `criu dump` to the disk and `aws s3 cp --recursive` from there.

Times are until durable, and until the restored program answers. CPU is that of the engine, CRIU,
the program (CRIU reads its memory from inside) and aws.

Expected before the first run (and why), to be held against what comes out:
* Durable: half of `images`, which waits for the page cache to be written after it was filled.
* CPU: 0.4 of `images`: one copy out of the pipes, and no pages of a cache to make.
* Restore: 1.2 of `images` at most: one more copy, into a pipe, beside reads that go on ahead.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from object import Server, minio
from sides import Sample, Side, cpu_per_gb, goal, interleave, ratio, say

from savemark import _engine

# Fills its memory, says so, and waits to be saved.
PROGRAM = """
import os, sys, time
memory = os.urandom(int(sys.argv[1]))
os.mkdir(sys.argv[2])
while True:
    time.sleep(0.1)
"""


def cpu_s(phase: dict) -> float:
    """CPU seconds of all that took part."""
    return (phase["cpu_user_ns"] + phase["cpu_system_ns"]) / 1e9


class Trials:
    """Trials of the workload `process` on one target; the restore comes with each save."""

    def __init__(self, target: str, size: int, **options: object) -> None:
        self.engine = _engine.Engine()
        self.trial = {"workload": "process", "storage": "uring", "target": target, "size": size}
        self.trial |= {"payload": "random", "seed": 1, **options}
        self.restores: list[Sample] = []

    def run(self) -> Sample:
        """One save; its restore is kept."""
        record = json.loads(self.engine.run(json.dumps(self.trial)))
        save, restore = record["phases"]
        assert restore["verified"] == "the program's memory"
        self.restores.append(self._sample(restore))
        return self._sample(save)

    def _sample(self, phase: dict) -> Sample:
        return Sample(phase["elapsed_ns"] / 1e9, phase["user_bytes"], 0, cpu_s(phase))


def on_disk(folder: Path, size: int, rounds: int) -> None:
    """The three ways to a local disk and back."""
    plain = {"mode": "images", "streams": 0}
    ways = {
        "stream": Trials(str(folder), size),
        "images": Trials(str(folder), size, **plain),
        "tmpfs": Trials(str(folder), size, mode="tmpfs"),
    }
    saves = {name: Side(name, trials.run) for name, trials in ways.items()}
    interleave(list(saves.values()), rounds)
    restores = {name: Side(name, trials.run, trials.restores[1:]) for name, trials in ways.items()}
    for what, sides in (("durable", saves), ("restore", restores)):
        say(f"{what}: {size >> 20} MiB of random bytes, local disk")
        for name, side in sides.items():
            seconds = side.median(lambda sample: sample.seconds)
            say(f"  {name:<8} {seconds:6.2f} s  {side.median(cpu_per_gb):5.2f} CPU-s/GB")

    def seconds(sample: Sample) -> float:
        return sample.seconds

    def of(sides: dict[str, Side], other: str, figure: object) -> float:
        return ratio(sides["stream"], sides[other], figure)

    goal("durable of plain images", of(saves, "images", seconds), 0.5, most=True)
    goal("durable of tmpfs and copy", of(saves, "tmpfs", seconds), 0.7, most=True)
    goal("CPU per GB of plain images", of(saves, "images", cpu_per_gb), 0.4, most=True)
    goal("restore of plain images", of(restores, "images", seconds), 1.2, most=True)


def by_hand(server: Server, folder: Path, size: int) -> Sample:
    """`criu dump` to the disk, then `aws s3 cp --recursive`, of a program started for it."""
    place = Path(tempfile.mkdtemp(dir=folder))
    ready = place / "ready"
    program = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", PROGRAM, str(size), str(ready)],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not ready.exists():
            time.sleep(0.05)
        images = place / "images"
        images.mkdir()
        before, start = os.times(), time.perf_counter()
        dump = ["criu", "dump", "--leave-stopped", "--tree", str(program.pid)]
        subprocess.run([*dump, "--images-dir", images, "--log-file", "log"], check=True)
        copy = ["aws", "--endpoint-url", server.endpoint, "s3", "cp", "--quiet", "--recursive"]
        environment = {**os.environ, **server.environment()}
        subprocess.run([*copy, images, "s3://bench/images"], check=True, env=environment)
        seconds, after = time.perf_counter() - start, os.times()
        used = after.children_user + after.children_system
        used -= before.children_user + before.children_system
        bytes_ = sum(file.stat().st_size for file in images.iterdir())
    finally:
        program.kill()
        program.wait()
        shutil.rmtree(place)
    return Sample(seconds, bytes_, 0, used)


def in_bucket(folder: Path, size: int, rounds: int) -> None:
    """The stream into MinIO, against files and aws."""
    with minio(folder) as server:
        os.environ.update(server.environment())
        stream = Trials("s3://bench/ours", size, storage="object", chunk_size="8MiB")
        us = Side("stream", stream.run)
        theirs = Side("images + aws s3 cp", lambda: by_hand(server, folder, size))
        interleave([us, theirs], rounds)
    say(f"durable: {size >> 20} MiB of random bytes, MinIO at loopback")
    for side in (us, theirs):
        seconds = side.median(lambda sample: sample.seconds)
        say(f"  {side.name:<20} {seconds:6.2f} s  {side.median(cpu_per_gb):5.2f} CPU-s/GB")
    value = ratio(us, theirs, lambda sample: sample.seconds)
    goal("durable of plain images, then aws s3 cp", value, 0.6, most=True)


def main() -> None:
    """Prints ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", default="1GiB")
    options = parser.parse_args()
    size = _engine.parse_size(options.size)
    with tempfile.TemporaryDirectory(dir=options.scratch) as made:
        on_disk(Path(made), size, options.rounds)
    if not (shutil.which("minio") and shutil.which("aws")):
        say("minio or aws is not on PATH: the part about buckets is left out")
        return
    with tempfile.TemporaryDirectory(dir=options.scratch) as made:
        in_bucket(Path(made), size, options.rounds)


if __name__ == "__main__":
    main()
