"""Block I/O side by side with fio, elbencho and IOR: in turns, medians, ratios, CPU per operation.

    python bench/block.py SCRATCH [--rounds 7] [--only random,sequential,memory,hot,files]

SCRATCH is on a disk that does direct I/O; `memory` mounts a tmpfs in it or uses
/dev/shm. Peers that are not on PATH are
skipped by name.

Expected before the first run (and why), to be held against what comes out:
* random: 1.2 times fio's best setting (fixed buffers, registered files, batches of 16), 1.5 times
  elbencho. All spend most of their time in the kernel; what differs is the loop around it, and how
  often it is entered: ours has the batch that a user gets at that depth, 32. Beforehand: 1.05 times
  what it was with 16, since there are half as many system calls, doorbells and wake-ups, which
  together were a sixth of the time. fio with batches of 32 stands beside it. All sides run where
  the kernel puts them, then on the first core and on the last: on one of them an I/O costs a third
  less, and where the scheduler happens to put a thread is most of the difference.
* sequential: equal rates, the same requests reach the same device; half of the CPU, since buffers
  stay registered and lie in huge pages, so that a request is one segment and not 256.
* memory, hot: 1.1 to 1.2 times fio psync. It reads the clock three times per I/O, we once; tmpfs
  hands io_uring's I/Os to a pool of threads, so the path of calls is the fast one, and the record
  says `posix`.
* files: equal rates with IOR and elbencho.
"""

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from peers import elbencho, fio, here, in_memory, ior
from sides import Sample, Side, cpu_per_gb, goal, interleave, iops, ours, per_cpu, rate, ratio, say

from savemark import _engine

SIZE = 1 << 30


def fio_layout(folder: Path) -> None:
    """The file that fio reads, written directly, as ours is."""
    layout = {"rw": "write", "bs": "4M", "iodepth": 4, "size": SIZE, "direct": 1, "end_fsync": 1}
    fio(folder, ioengine="io_uring", **layout)


def table(title: str, sides: list[Side], *, bandwidth: bool = False) -> None:
    """Medians of all sides."""
    say(title)
    for side in sides:
        if bandwidth:
            figures = f"{side.median(rate):6.2f} GB/s   {side.median(cpu_per_gb):7.4f} CPU-s per GB"
        else:
            figures = f"{side.median(iops):7.1f} k IOPS   {side.median(per_cpu):7.1f} k per CPU-s"
        say(f"  {side.name:14} {figures}")


@contextmanager
def on_cores(cores: set[int]) -> Iterator[None]:
    """With this process, and those that it starts, on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def random(folder: Path, rounds: int) -> None:
    """Wherever the kernel puts them, as users run them; then on the first core, and on the last."""
    fio_layout(folder)
    cores = os.sched_getaffinity(0)
    places = {"any core": cores, **{f"core {core}": {core} for core in (min(cores), max(cores))}}
    for name, where in places.items():
        with on_cores(where):
            random_reads(folder, rounds, name)


def random_reads(folder: Path, rounds: int, place: str) -> None:
    """4 KiB random direct reads, depth 128: ours as it comes, fio with batches of 16 and 32."""
    engine = _engine.Engine()
    job = {"rw": "randread", "bs": "4k", "size": SIZE, "direct": 1, "iodepth": 128, "runtime": 3}
    job |= {"ioengine": "io_uring", "fixedbufs": 1, "registerfiles": 1, "time_based": 1}
    job |= {"norandommap": 1, "randrepeat": 0}
    trial = {"workload": "random", "storage": "uring", "size": SIZE, "queue_depth": 128}
    trial |= {"duration": "3s", "operation": "read"}
    us = Side("savemark", lambda: ours(engine, folder, "read", **trial))
    best, wide = (
        Side(
            f"fio, batch {batch}",
            lambda b={"iodepth_batch_submit": batch, "iodepth_batch_complete_min": batch}: fio(
                folder, **job, **b
            ),
        )
        for batch in (16, 32)
    )
    sides = [us, best, wide]
    if here("elbencho"):
        words = ["-r", "--rand", "--direct", "-b4k", "--iodepth=128", "-t1", "--infloop"]
        words += ["--timelimit=3", f"-s{SIZE}", folder / "fio.bin"]
        sides.append(Side("elbencho", lambda: elbencho(*words)["READ"]))
    interleave(sides, rounds)
    table(f"random: 4 KiB direct reads, depth 128, fixed buffers, on {place}", sides)
    goal("IOPS per CPU-second against fio", ratio(us, best, per_cpu), 1.2)
    goal("IOPS against fio", ratio(us, best, iops), 0.97)
    say(f"  beside fio with our batch: {ratio(us, wide, per_cpu):.2f} IOPS per CPU-second")
    for other in sides[3:]:
        goal("IOPS per CPU-second against elbencho", ratio(us, other, per_cpu), 1.5)


def sequential(folder: Path, rounds: int) -> None:
    """1 and 4 MiB direct, one and two workers: one read and one write, fsync inside its time."""
    engine = _engine.Engine()
    for transfer, depth, workers in (("1M", 8, 1), ("4M", 2, 2)):
        base = {"bs": transfer, "iodepth": depth, "size": SIZE // workers, "direct": 1}
        base |= {"ioengine": "io_uring", "fixedbufs": 1, "registerfiles": 1, "numjobs": workers}
        base |= {"offset_increment": SIZE // workers, "thread": 1}

        def fio_write(base: dict = base) -> Sample:
            (folder / "fio.bin").unlink(missing_ok=True)  # a new file each time, as ours is
            return fio(folder, rw="write", end_fsync=1, **base)

        def fio_read(base: dict = base) -> Sample:
            fio_layout(folder)
            return fio(folder, rw="read", **base)

        for operation, theirs in (("read", fio_read), ("write", fio_write)):
            trial = {"workload": "sequential", "storage": "uring", "size": SIZE}
            trial |= {"operation": operation, "transfer_size": transfer, "queue_depth": depth}
            trial |= {"workers": workers}
            them = Side("fio io_uring", theirs)
            us = Side("savemark", lambda t=trial, o=operation: ours(engine, folder, o, **t))
            interleave([us, them], rounds)
            what = f"{transfer}iB direct, depth {depth}, {workers} workers, 1 GiB"
            table(f"sequential {operation}: {what}", [us, them], bandwidth=True)
            goal("throughput against fio", ratio(us, them, rate), 0.95)
            goal("CPU per GB against fio", ratio(us, them, cpu_per_gb), 0.8, most=True)
    (folder / "fio.bin").unlink(missing_ok=True)


def calls(title: str, folder: Path, rounds: int, **trial: object) -> None:
    """4 KiB random reads from memory through pread: the cost of the loop and of the call."""
    engine, size = _engine.Engine(), SIZE // 4
    fio_folder, our_folder = folder / "fio", folder / "ours"
    fio_folder.mkdir()
    our_folder.mkdir()
    fio(fio_folder, rw="write", bs="1M", size=size, ioengine="psync", end_fsync=1)
    fio(fio_folder, rw="read", bs="1M", size=size, ioengine="psync", invalidate=0)
    job = {"rw": "randread", "bs": "4k", "size": size, "ioengine": "psync", "runtime": 2}
    job |= {"time_based": 1, "norandommap": 1, "randrepeat": 0, "invalidate": 0}
    asked = {"workload": "random", "storage": "posix", "direct": False, "size": size}
    asked |= {"queue_depth": 1, "duration": "2s", "operation": "read", **trial}
    us = Side("savemark posix", lambda: ours(engine, our_folder, "read", **asked))
    psync = Side("fio psync", lambda: fio(fio_folder, **job))
    batched = {**job, "ioengine": "io_uring", "iodepth": 32, "fixedbufs": 1, "registerfiles": 1}
    batched |= {"iodepth_batch_submit": 16, "iodepth_batch_complete_min": 16}
    uring = Side("fio io_uring", lambda: fio(fio_folder, **batched))
    deep = {**asked, "storage": "uring", "queue_depth": 32, "batch": 16}
    ours_deep = Side("savemark uring", lambda: ours(engine, our_folder, "read", **deep))
    sides = [us, psync, ours_deep, uring]
    if here("elbencho"):
        words = ["-r", "--rand", "-b4k", "-t1", "--infloop", "--timelimit=2", f"-s{size}"]
        sides.append(Side("elbencho", lambda: elbencho(*words, fio_folder / "fio.bin")["READ"]))
    interleave(sides, rounds)
    table(f"{title}: 4 KiB random reads, one worker", sides)
    goal("IOPS of calls against fio psync", ratio(us, psync, iops), 1.1)
    goal("IOPS per CPU-second against fio psync", ratio(us, psync, per_cpu), 1.1)
    for other in sides[4:]:
        goal("IOPS of calls against elbencho", ratio(us, other, iops), 1.1)


def memory(folder: Path, rounds: int) -> None:
    """On tmpfs."""
    with in_memory(folder) as made:
        calls("memory (tmpfs)", made, rounds)


def hot(folder: Path, rounds: int) -> None:
    """From the page cache of the disk's filesystem, read once before."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        calls("hot (page cache)", Path(made), rounds, cache="warm")


def files(folder: Path, rounds: int) -> None:
    """IOR's geometry on two workers, and files of their own against elbencho."""
    engine = _engine.Engine()
    if here("ior", "mpirun"):
        for workload, words in (("shared_file", []), ("file_per_process", ["-F"])):
            geometry = ["-b", "16m", "-s", "16", "-t", "2m", "-e", "-C", "--posix.odirect", *words]
            trial = {"workload": workload, "storage": "posix", "block_size": "16MiB"}
            trial |= {"segments": 16, "transfer_size": "2MiB", "workers": 2}
            for operation, flag in (("write", "-w"), ("read", "-r")):
                run = ["-k", flag, "-o", folder / "ior.bin", *geometry]
                them = Side("ior", lambda r=run, o=operation: ior(2, *r)[o])
                us = Side(
                    "savemark posix",
                    lambda t=trial, o=operation: ours(engine, folder, o, **t),
                )
                interleave([us, them], rounds)
                table(f"{workload} {operation}: 2 workers", [us, them], bandwidth=True)
                goal("throughput against IOR", ratio(us, them, rate), 0.95)
            for left in folder.glob("ior.bin*"):
                left.unlink()
    if here("elbencho"):
        trial = {"workload": "sequential", "storage": "uring", "operation": "write", "files": 4}
        trial |= {"size": "64MiB", "transfer_size": "1MiB", "queue_depth": 8, "workers": 2}
        trial |= {"sync": "none", "preallocate": False}  # as elbencho does
        target = folder / "elbencho"
        words = ["-w", "-d", "-t2", "-n1", "-N4", "-s64m", "-b1m", "--direct", "--iodepth=8"]
        us = Side("savemark uring", lambda: ours(engine, folder, "write", **trial))

        def them_run() -> Sample:
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            return elbencho(*words, target)["WRITE"]

        them = Side("elbencho", them_run)
        interleave([us, them], rounds)
        table("files: 2 workers write 4 files of 64 MiB each", [us, them], bandwidth=True)
        shutil.rmtree(target, ignore_errors=True)


SECTIONS: dict[str, Callable[[Path, int], None]] = {
    "random": random,
    "sequential": sequential,
    "memory": memory,
    "hot": hot,
    "files": files,
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
            if name != "files" and not shutil.which("fio"):
                say(f"{name}: skipped, fio is not installed")
                continue
            SECTIONS[name](Path(made), arguments.rounds)


if __name__ == "__main__":
    main()
