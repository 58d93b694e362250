"""Saving and restoring against our own ceilings, the codecs, and how long --help takes.

    python bench/run.py SCRATCH [--rounds 7] [--only checkpoint,codecs,help]

Expected before the first run (and why), to be held against what comes out:
* checkpoint: 90 % of the ceiling; what is missing is opening shards, one fsync each, and the
  manifest. (Reading has two ceilings. "unseen" moves bytes that no processor ever looks at, as fio
  does; "checked" looks at each, as a restore must. On a virtual disk whose host thread runs on
  another socket they differ by a third.)
* codecs: planes on bf16 1.5 at 1.8 and 2.5 GB/s, for it copies half of the bytes and only
  Huffman-codes the others; fp32 1.2 at 2.5 and 3; text like zstd; random half as fast as a copy.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sides import Side, cpu_per_gb, goal, interleave, ours, per_core, rate, ratio, say

from savemark import _engine

SIZE = 1 << 30


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
            SECTIONS[name](Path(made), arguments.rounds)


if __name__ == "__main__":
    main()
