"""Side by side with fio and with our own ceilings: interleaved, medians, ratios, CPU per operation.

    python bench/run.py SCRATCH [--rounds 7] [--only random,sequential,checkpoint,codecs,…]

Expected before the first run (and why), to be held against what comes out:
* random: 1.0 to 1.2 times fio. Both spend most of their time in the kernel; what differs is the
  loop around it.
* sequential: equal rates; the same requests reach the same device. Less CPU, since buffers stay
  registered. (Came out 1.5 to 1.8 times as fast: our buffers lie in huge pages, so a request is
  one segment and not 256, and a virtual disk pays for each.)
* memory: 1.1 to 1.5 times fio psync, for fio reads the clock three times per I/O, we twice.
* checkpoint: 90 % of the ceiling; what is missing is opening shards, one fsync each, and the
  manifest. (Reading has two ceilings. "unseen" moves bytes that no processor ever looks at, as fio
  does; "checked" looks at each, as a restore must. On a virtual disk whose host thread runs on
  another socket they differ by a third.)
* codecs: planes on bf16 1.5 at 1.8 and 2.5 GB/s, for it copies half of the bytes and only
  Huffman-codes the others; fp32 1.2 at 2.5 and 3; text like zstd; random half as fast as a copy.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from savemark import _engine

SIZE = 1 << 30


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
    """A B C, B C A, C A B …: nobody always comes first."""
    for turn in range(rounds + 1):
        for side in sides[turn % len(sides) :] + sides[: turn % len(sides)]:
            sample = side.run()
            if turn:  # the first round warms up
                side.samples.append(sample)


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


def fio(folder: Path, **options: object) -> Sample:
    """One fio job; its own CPU accounting (usr + sys of the job's thread)."""
    words = [f"--{key}={value}" for key, value in options.items()]
    command = ["fio", "--name=bench", f"--directory={folder}", "--filename=fio.bin", *words]
    output = subprocess.run(
        [*command, "--output-format=json"], check=True, capture_output=True, text=True
    ).stdout
    job = json.loads(output[output.index("{") :])["jobs"][0]
    part = job["read"] if job["read"]["total_ios"] else job["write"]
    cpu_s = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1e3
    return Sample(part["runtime"] / 1e3, part["io_bytes"], part["total_ios"], cpu_s)


def ours(engine: _engine.Engine, folder: Path, phase: str, **trial: object) -> Sample:
    """One trial of the engine; CPU of the whole process during the phase."""
    record = json.loads(engine.run(json.dumps({"target": str(folder), "seed": 1, **trial})))
    part = next(p for p in record["phases"] if p["name"] == phase)
    cpu_ns = part["cpu_user_ns"] + part["cpu_system_ns"]
    done = (part["user_bytes"], part["operations"], cpu_ns / 1e9, part["stored_bytes"])
    return Sample(part["elapsed_ns"] / 1e9, *done)


def fio_layout(folder: Path) -> None:
    """The file that fio reads, written directly, as ours is."""
    layout = {"rw": "write", "bs": "4M", "iodepth": 4, "size": SIZE, "direct": 1, "end_fsync": 1}
    fio(folder, ioengine="io_uring", **layout)


def random(folder: Path, rounds: int) -> None:
    """4 KiB random direct reads, depth 128, batches of 16."""
    engine = _engine.Engine()
    fio_layout(folder)
    job = {"rw": "randread", "bs": "4k", "size": SIZE, "direct": 1, "iodepth": 128, "runtime": 3}
    job |= {"ioengine": "io_uring", "fixedbufs": 1, "registerfiles": 1, "time_based": 1}
    job |= {"norandommap": 1, "randrepeat": 0}
    job |= {"iodepth_batch_submit": 16, "iodepth_batch_complete_min": 16}
    trial = {"workload": "random", "storage": "uring", "size": SIZE, "queue_depth": 128}
    trial |= {"batch": 16, "duration": "3s", "operation": "read"}
    theirs = Side("fio io_uring", lambda: fio(folder, **job))
    us = Side("savemark", lambda: ours(engine, folder, "read", **trial))
    interleave([us, theirs], rounds)
    say("random: 4 KiB direct reads, depth 128, batch 16, fixed buffers, registered files")
    for side in (us, theirs):
        say(
            f"  {side.name:14} {side.median(iops):7.1f} k IOPS"
            f"   {side.median(per_cpu):7.1f} k IOPS per CPU-second"
        )
    goal("IOPS per CPU-second against fio", ratio(us, theirs, per_cpu), 1.0)


def sequential(folder: Path, rounds: int) -> None:
    """1 MiB direct, depth 8: one read and one write, fsync inside the write's time."""
    engine = _engine.Engine()
    base = {"bs": "1M", "iodepth": 8, "size": SIZE, "direct": 1, "ioengine": "io_uring"}
    base |= {"fixedbufs": 1, "registerfiles": 1}

    def fio_write() -> Sample:
        (folder / "fio.bin").unlink(missing_ok=True)  # a new file each time, as ours is
        return fio(folder, rw="write", end_fsync=1, **base)

    def fio_read() -> Sample:
        fio_layout(folder)
        return fio(folder, rw="read", **base)

    for operation, theirs_run in (("read", fio_read), ("write", fio_write)):
        trial = {"workload": "sequential", "storage": "uring", "size": SIZE}
        trial |= {"operation": operation, "transfer_size": "1MiB", "queue_depth": 8}
        theirs = Side("fio io_uring", theirs_run)
        us = Side("savemark", lambda t=trial, o=operation: ours(engine, folder, o, **t))
        interleave([us, theirs], rounds)
        say(f"sequential {operation}: 1 MiB direct, depth 8, 1 GiB")
        for side in (us, theirs):
            say(
                f"  {side.name:14} {side.median(rate):6.2f} GB/s"
                f"   {side.median(cpu_per_gb):7.4f} CPU-s per GB"
            )
        goal("throughput against fio", ratio(us, theirs, rate), 0.95)
        goal("CPU per GB against fio", ratio(us, theirs, cpu_per_gb), 1.0, most=True)
    (folder / "fio.bin").unlink(missing_ok=True)


def memory(_: Path, rounds: int) -> None:
    """4 KiB random reads on tmpfs: the cost of the engine's loop and of the system call."""
    engine = _engine.Engine()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as made:
        fio_folder, our_folder = Path(made) / "fio", Path(made) / "ours"
        fio_folder.mkdir()
        our_folder.mkdir()
        size = SIZE // 4
        fio(fio_folder, rw="write", bs="1M", size=size, ioengine="psync")
        job = {"rw": "randread", "bs": "4k", "size": size, "ioengine": "psync", "runtime": 2}
        job |= {"time_based": 1, "norandommap": 1, "randrepeat": 0}
        trial = {"workload": "random", "storage": "posix", "direct": False, "size": size}
        trial |= {"queue_depth": 1, "duration": "2s", "operation": "read"}
        theirs = Side("fio psync", lambda: fio(fio_folder, **job))
        us = Side("savemark posix", lambda: ours(engine, our_folder, "read", **trial))
        interleave([us, theirs], rounds)
    say("memory: 4 KiB random reads on tmpfs, one worker")
    for side in (us, theirs):
        say(
            f"  {side.name:14} {side.median(iops):7.1f} k IOPS"
            f"   {side.median(per_cpu):7.1f} k per CPU-second"
        )
    goal("IOPS against fio psync", ratio(us, theirs, iops), 1.0)


def checkpoint(folder: Path, rounds: int) -> None:
    """Save and restore against the ceilings of the same run."""
    engine = _engine.Engine()
    size, cores = SIZE // 2, 2
    base = {"size": size, "storage": "uring"}
    ceilings = {
        "write": {"operation": "write"},
        "read unseen": {"operation": "read"},
        "read checked": {"operation": "read", "checksum": True, "workers": 4, "queue_depth": 2},
    }
    sides = {}
    for name, options in ceilings.items():
        trial = {"workload": "sequential", **options, **base}
        phase = options["operation"]
        sides[name] = Side(name, lambda t=trial, p=phase: ours(engine, folder, p, **t))
    for codec in ("none", "lz4", "zstd"):
        trial = {"workload": "checkpoint", "codec": codec, "streams": 4, **base}
        sides[f"save {codec}"] = Side(codec, lambda t=trial: ours(engine, folder, "save", **t))
        sides[f"restore {codec}"] = Side(
            codec, lambda t=trial: ours(engine, folder, "restore", **t)
        )
        if codec != "none":
            trial = {"workload": "codec", "storage": "null", "codec": codec, "size": size // 4}
            for phase in ("encode", "decode"):
                sides[f"{phase} {codec}"] = Side(
                    phase, lambda t=trial, p=phase: ours(engine, folder, p, **t)
                )
    interleave(list(sides.values()), rounds)
    what = f"{size >> 20} MiB of bf16 weights, 4 streams, durable and cold"
    say(f"checkpoint: {what}, on {cores} cores")
    for name, side in sides.items():
        cpu = side.median(cpu_per_gb)
        say(f"  {name:14} {side.median(rate):6.2f} GB/s   {cpu:7.3f} CPU-s per GB")
    limits = (("save", "write", "encode"), ("restore", "read checked", "decode"))
    for phase, ceiling, coding in (*limits, ("restore", "read unseen", "decode")):
        for codec, ratio_of in (("none", 1.0), ("lz4", 1.0), ("zstd", 1.28)):
            limit = sides[ceiling].median(rate) * ratio_of
            if codec != "none":
                limit = min(limit, sides[f"{coding} {codec}"].median(rate) * cores)
            share = sides[f"{phase} {codec}"].median(rate) / limit
            goal(f"{phase} {codec} of the limit by {ceiling}", share, 0.85)


def codecs(folder: Path, rounds: int) -> None:
    """One thread, in memory: planes against zstd and lz4 on what checkpoints are made of."""
    engine = _engine.Engine()
    say("codecs: one core, 64 MiB in chunks of 1 MiB, MB of user bytes per CPU-second")
    say(f"  {'':14} {'encode':>7} {'decode':>7} {'ratio':>6}")
    for payload in ("bf16", "fp32", "text", "random"):
        sides: dict[str, tuple[Side, Side]] = {}
        for codec in ("planes", "zstd", "lz4"):
            trial = {"workload": "codec", "storage": "null", "codec": codec, "payload": payload}
            sides[codec] = (
                Side("encode", lambda t=trial: ours(engine, folder, "encode", **t)),
                Side("decode", lambda t=trial: ours(engine, folder, "decode", **t)),
            )
        interleave([side for pair in sides.values() for side in pair], rounds)
        for codec, (encode, decode) in sides.items():
            smaller = encode.median(lambda sample: sample.bytes / sample.stored)
            speeds = f"{encode.median(per_core):7.0f} {decode.median(per_core):7.0f}"
            say(f"  {payload:6} {codec:7} {speeds} {smaller:6.3f}")
        encode, decode = sides["planes"]
        smaller = encode.median(lambda sample: sample.bytes / sample.stored)
        if payload == "bf16":
            goal("planes on bf16, ratio", smaller, 1.45)
            goal("planes on bf16, encode GB/s per core", encode.median(per_core) / 1e3, 0.9)
            goal("planes on bf16, decode GB/s per core", decode.median(per_core) / 1e3, 1.5)
        elif payload == "fp32":
            goal("planes on fp32, ratio", smaller, 1.17)
        else:
            times = ratio(encode, sides["zstd"][0], per_core)
            goal(f"planes on {payload}, encode against zstd", times, 0.9)


def help_time(_: Path, rounds: int) -> None:
    """How long `savemark --help` takes."""
    command = [str(Path(sys.executable).parent / "savemark"), "--help"]
    times = []
    for _turn in range(max(rounds, 5) + 1):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append((time.perf_counter() - start) * 1e3)
    say("help: savemark --help")
    goal("milliseconds", statistics.median(times[1:]), 150, most=True)


SECTIONS = {
    "random": random,
    "sequential": sequential,
    "memory": memory,
    "checkpoint": checkpoint,
    "codecs": codecs,
    "help": help_time,
}


def main() -> None:
    """Runs the sections that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default=",".join(SECTIONS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.scratch, prefix="savemark-bench-") as made:
        for name in arguments.only.split(","):
            if name in ("random", "sequential", "memory") and not shutil.which("fio"):
                say(f"{name}: skipped, fio is not installed")
                continue
            SECTIONS[name](Path(made), arguments.rounds)


if __name__ == "__main__":
    main()
