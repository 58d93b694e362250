"""A state dict of torch tensors, saved durably and loaded cold: savemark against what people use.

    python bench/statedict.py SCRATCH [--gib 4] [--rounds 3]

Needs torch (a CPU build is enough) and safetensors, which are no dependencies of savemark: install
them into an environment of its own, with fastsafetensors and runai-model-streamer if they are to be
compared, and put python/ of this checkout on PYTHONPATH. fio, if it is there, gives the ceiling.
All sides run in turn in every round; figures are medians. Loads are verified, and fill tensors that
exist. Needs three times the state in memory, for a side that loads into tensors of its own first,
and five times the state on the disk. What one leaves in memory is what the next one finds: in eight
rounds each load into fresh tensors comes once after each other, in fewer only after some.

Two columns, because on virtual machines the difference may be larger than that between programs:
"recycled": memory that was freed a moment ago, so that the host still backs it, and tensors that
have been written before; "fresh": the host has had seconds to take free memory back, and the
tensors are touched by the load for the first time.

Expected before measuring (and why), to be held against what comes out:
* save: twice the best of the others; they write through the page cache, we at the rate of fio.
* load: 1.05 to 1.5 times the best; the best ones read directly too, or in parallel.
* CPU, save: 0.10 s/GB. The checksum reads every byte from memory, at 10 to 14 GB/s (0.08); the
  rest is the kernel's, which pins 4 KiB pages. Nothing else touches the bytes.
* CPU, load, recycled: 0.11 s/GB. The checksum from the shared cache (0.04), stores around the
  cache (0.06), the kernel (0.01). The same when reading in place: no stores, but the checksum
  reads from memory (0.08) and pages are pinned (0.02).
* CPU, load, fresh: 0.3 s/GB more, the kernel's zeroing of pages; huge pages would be dearer, not
  cheaper, where the host has taken them back: 2 to 3 s/GB.
Came out (3.9 GiB, three rounds, idle): save 3.2 and 2.9 times the fastest (recycled, fresh), at the
rate of the device, 0.09 s/GB; load 1.1 and 1.9 times, 0.13 s/GB and, fresh, 0.8: where the host has
taken pages back, a first touch costs ten times what we expected. In place 0.12, and slower.
"""

import argparse
import ctypes
import json
import mmap
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from sides import order
from statedict_sides import SIDES, Load, Save, State

from savemark import _engine

# Bounds: what every load into fresh tensors has to pay, whatever it reads from; what a load pays
# that reads directly, stores nothing, and looks at no byte or at each one; and what a save pays
# that writes directly from where the tensors are, and looks at nothing. fio writes from eight
# buffers that the cache holds: a device that takes bytes from memory takes those faster.
TOUCH, READ, LOOK = "first touch alone", "reading alone", "reading, each byte"
WRITE = "writing alone"
BOUNDS = (TOUCH, READ, LOOK, WRITE)
COLUMNS = ("recycled", "fresh")
MADV_POPULATE_WRITE = 23
LAYER = 1 << 24  # parameters: 32 MiB of bf16, and 3 x 64 MiB of fp32


def make(gib: float) -> State:
    """Weights in bf16, their fp32 masters and both Adam moments."""
    state: State = {}
    for layer in range(max(1, round(gib * (1 << 30) / (14 * LAYER)))):
        master = torch.randn(LAYER).mul_(0.02)
        state[f"model.{layer}.weight"] = master.bfloat16()
        state[f"optimizer.{layer}.master"] = master
        state[f"optimizer.{layer}.exp_avg"] = torch.randn(LAYER)
        state[f"optimizer.{layer}.exp_avg_sq"] = torch.rand(LAYER)
    return state


def size(state: State) -> int:
    """Bytes of all tensors."""
    return sum(t.nbytes for t in state.values())


def forget(path: Path) -> None:
    """Takes files out of the page cache."""
    for found in path.rglob("*") if path.is_dir() else [path]:
        if found.is_file():
            descriptor = os.open(found, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


@dataclass
class Found:
    """One save or load: seconds of wall and of CPU time, and memory beyond what there was."""

    wall: float
    cpu: float
    extra_bytes: int


def memory(key: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{key}:")[1].split()[0]) << 10


def measured(act: Callable[[], None], own_bytes: int = 0) -> Found:
    """Runs `act`; `own_bytes` of memory that it must touch are not counted as extra."""
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again
    rss = memory("VmRSS")
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    act()
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Found(wall, cpu, max(0, memory("VmHWM") - rss - own_bytes))


def settle(column: str, size_bytes: int) -> None:
    """Brings the disk to rest, and free memory into the state that the column is about.

    A disk that has just written for another, or forgotten his blocks, may be a fifth faster or
    slower for a moment: fio's write was 3.0 GB/s then, and 2.2 after a rest.
    """
    os.sync()
    time.sleep(0.5)
    if column == "fresh":
        time.sleep(5)  # hosts take free pages back after about two seconds
        return
    with mmap.mmap(-1, size_bytes) as room:
        for page in range(0, size_bytes, mmap.PAGESIZE):
            room[page] = 1


def touch(into: State) -> None:
    """Backs the pages of all tensors, two threads at once, and does nothing else."""
    libc = ctypes.CDLL(None, use_errno=True)

    def populate(tensor: torch.Tensor) -> None:
        start = tensor.data_ptr() // mmap.PAGESIZE * mmap.PAGESIZE
        length = tensor.data_ptr() + tensor.nbytes - start
        if libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), MADV_POPULATE_WRITE):
            raise OSError(ctypes.get_errno(), "madvise")

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(populate, into.values()))


def fio(scratch: Path, operation: str, size_bytes: int) -> float:
    """Bytes per second of direct I/O, or 0 without fio."""
    if shutil.which("fio") is None:
        return 0.0
    settle("recycled", size_bytes)
    words = f"--name=x --filename={scratch}/fio --rw={operation} --direct=1 --bs=1M --iodepth=8"
    words += f" --ioengine=io_uring --size={size_bytes} --end_fsync=1 --output-format=json"
    out = subprocess.run(["fio", *words.split()], capture_output=True, text=True, check=True)
    return float(json.loads(out.stdout)["jobs"][0][operation]["bw_bytes"])


def read_alone(scratch: Path, size_bytes: int, checksum: bool) -> Found:
    """A file read directly by two threads into a few buffers that the cache holds."""
    trial = {"workload": "sequential", "storage": "uring", "operation": "read", "workers": 2}
    trial |= {"size": size_bytes >> 20 << 20, "transfer_size": "1MiB", "queue_depth": 4}
    asked = json.dumps(trial | {"target": str(scratch), "checksum": checksum})
    phase = json.loads(_engine.Engine().run(asked))["phases"][-1]
    cpu_ns = phase["cpu_user_ns"] + phase["cpu_system_ns"]
    return Found(phase["elapsed_ns"] / 1e9, cpu_ns / 1e9, 0)


def write_alone(scratch: Path, state: State) -> Found:
    """The tensors written directly from where they are, eight MiB at once, into one file."""
    path, block = scratch / "alone", 1 << 20
    pieces = []
    for tensor in state.values():
        start = -tensor.data_ptr() % mmap.PAGESIZE
        array = (ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr())
        whole = memoryview(array).cast("B")
        pieces += [whole[at : at + block] for at in range(start, tensor.nbytes - block, block)]

    def act() -> None:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
        os.posix_fallocate(file, 0, len(pieces) * block)
        with ThreadPoolExecutor(8) as threads:
            offsets = range(0, len(pieces) * block, block)
            list(threads.map(lambda piece, at: os.pwrite(file, piece, at), pieces, offsets))
        os.fsync(file)
        os.close(file)

    found = measured(act)
    path.unlink()
    scale = size(state) / (len(pieces) * block)
    return Found(found.wall * scale, found.cpu * scale, found.extra_bytes)


class Bench:
    """The state, tensors to load into, and what was found by column and side."""

    def __init__(self, gib: float, scratch: Path) -> None:
        self.state, self.scratch = make(gib), scratch
        self.into = {name: torch.zeros_like(tensor) for name, tensor in self.state.items()}
        self.found: dict[str, dict[str, list[Found]]] = {}
        self.ceilings: dict[str, list[float]] = {"write": [], "read": []}

    def note(self, column: str, side: str, found: Found) -> None:
        """Keeps one measurement, and tells it on stderr."""
        self.found.setdefault(column, {}).setdefault(side, []).append(found)
        sys.stderr.write(f"{column:<14} {side:<18} {found.wall:6.2f} s, {found.cpu:6.2f} CPU-s\n")

    def warm_up(self) -> None:
        """Every side once with a small state: what it does once is not its speed."""
        state = {"x": torch.ones(1 << 20)}
        for name, (save, loads) in SIDES.items():
            path = self.scratch / name.replace(".", "-")
            save(state, path)
            for load in loads.values():
                load(path, {"x": torch.zeros(1 << 20)})
            remove(path)

    def round(self, turn: int) -> None:
        """Every side once, in both columns, in another order each time."""
        for operation, rates in self.ceilings.items():
            rates.append(fio(self.scratch, operation, size(self.state) >> 20 << 20))
        (self.scratch / "fio").unlink(missing_ok=True)
        paths = {name: self.scratch / name.replace(".", "-") for name in SIDES}
        loads = [(side, load, paths[n]) for n in SIDES for side, load in SIDES[n][1].items()]
        sides = [(name, save) for name, (save, _) in SIDES.items()]
        for column in COLUMNS:
            for name, save in [sides[place] for place in order(len(sides), turn)]:
                self.save(column, name, save, paths[name])
        for column in COLUMNS:
            # What any load into fresh tensors has to pay is paid in turn with them.
            of_column = [*loads, (TOUCH, None, self.scratch)] if column == "fresh" else loads
            for place in order(len(of_column), turn):
                self.load(column, *of_column[place])
        for path in paths.values():
            remove(path)
        self.bounds()

    def bounds(self) -> None:
        """What no save and no load from here can be below."""
        settle("recycled", size(self.state))
        self.note("save recycled", WRITE, write_alone(self.scratch, self.state))
        settle("recycled", size(self.state))
        for name, checksum in ((READ, False), (LOOK, True)):
            self.note("load recycled", name, read_alone(self.scratch, size(self.state), checksum))

    def save(self, column: str, side: str, save: Save, path: Path) -> None:
        """One durable save of a state that has just been computed with."""
        remove(path)
        settle(column, size(self.state))
        for tensor in self.state.values():
            tensor.sum()
        self.note(f"save {column}", side, measured(lambda: save(self.state, path)))

    def load(self, column: str, side: str, load: Load | None, path: Path) -> None:
        """One cold load, verified; or none, and the tensors are only touched."""
        fresh = column == "fresh"
        into = {n: torch.empty_like(t) for n, t in self.state.items()} if fresh else self.into
        if load is not None:
            forget(path)
        settle(column, size(self.state))
        act = partial(load, path, into) if load else partial(touch, into)
        self.note(f"load {column}", side, measured(act, size(self.state) if fresh else 0))
        if load and not all(torch.equal(into[name], tensor) for name, tensor in self.state.items()):
            raise SystemExit(f"{side} loaded something else")
        if not fresh:
            for tensor in into.values():
                tensor.zero_()

    def table(self) -> None:
        """Prints medians, and ours against the best of the others."""
        size_bytes = size(self.state)
        ceilings = {name: statistics.median(rates) for name, rates in self.ceilings.items()}
        print(f"{size_bytes / (1 << 30):.1f} GiB, torch {torch.__version__}, fio", end=" ")
        print(" · ".join(f"{name} {rate / 1e9:.2f} GB/s" for name, rate in ceilings.items()))
        for column, sides in self.found.items():
            ceiling = ceilings["write" if column.startswith("save") else "read"]
            middle = {side: median(found) for side, found in sides.items()}
            print(f"\n{column:<20} GB/s  of fio  CPU-s/GB  extra MiB")
            for side, found in middle.items():
                rate = size_bytes / found.wall
                of_fio = f"{100 * rate / ceiling:5.0f} %" if ceiling else "      –"
                cpu, extra = found.cpu / size_bytes * 1e9, found.extra_bytes / (1 << 20)
                print(f"  {side:<18} {rate / 1e9:5.2f} {of_fio}    {cpu:6.3f}     {extra:6.0f}")
            compare(middle)


def compare(middle: dict[str, Found]) -> None:
    """Prints ours against the fastest of the others, and against the thriftiest."""
    others = {
        side: found for side, found in middle.items() if not side.startswith(("savemark", *BOUNDS))
    }
    fastest = min(others, key=lambda side: others[side].wall)
    thriftiest = min(others, key=lambda side: others[side].cpu)
    for side, found in middle.items():
        if side.startswith("savemark"):
            print(
                f"  {side}: {others[fastest].wall / found.wall:.2f}× the fastest ({fastest}) at "
                f"{found.cpu / others[fastest].cpu:.2f}× its CPU, "
                f"{found.cpu / others[thriftiest].cpu:.2f}× the least ({thriftiest})"
            )


def median(found: list[Found]) -> Found:
    """The median of each figure; of memory the largest."""
    wall, cpu = (statistics.median(getattr(f, key) for f in found) for key in ("wall", "cpu"))
    return Found(wall, cpu, max(f.extra_bytes for f in found))


def remove(path: Path) -> None:
    """Removes a file or a directory, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--gib", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    warnings.filterwarnings("ignore", message="torch.distributed is")  # one process is meant
    with tempfile.TemporaryDirectory(dir=asked.scratch) as folder:
        bench = Bench(asked.gib, Path(folder))
        bench.warm_up()
        for turn in range(asked.rounds):
            load, _, _ = os.getloadavg()
            sys.stderr.write(f"round {turn + 1} of {asked.rounds}, load average {load:.1f}\n")
            bench.round(turn)
        bench.table()
    return 0


if __name__ == "__main__":
    sys.exit(main())
