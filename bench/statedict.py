"""A state dict of torch tensors, saved durably and loaded cold: savemark against what people use.

    python bench/statedict.py SCRATCH [--gib 2] [--rounds 5]

Needs torch (a CPU build is enough) and safetensors, which are no dependencies of savemark: install
them into an environment of its own, and put python/ of this checkout on PYTHONPATH. fio, if it is
there, gives the ceiling. All sides run in turn in every round; figures are medians.

"fresh" tensors are touched by the load for the first time, "recycled" ones have been written
before: on virtual machines the difference may be larger than that between the programs.

Expected before the first run (and why), to be held against what comes out:
* save: 3 to 4 times torch.save, 2 times DCP and safetensors. They write through the page cache.
  (Came out 6 times torch.save, 2.6 times DCP, 2.3 times safetensors: at the rate of fio.)
* load, recycled: 2 times torch.load and DCP. One copy out of a buffer in the processor's cache.
  (Came out 1.8 times; 1.5 times safetensors.)
* CPU: a tenth. What is left is the checksum (15 GB/s) and, when loading, that copy. (Came out
  a sixth to a fifteenth of theirs when saving, two thirds of safetensors' when loading.)
"""

import argparse
import json
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
from pathlib import Path

import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp

import savemark

State = dict[str, torch.Tensor]
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


def fsync(path: Path) -> None:
    """Makes a file or everything in a directory durable."""
    for found in [*path.rglob("*"), path] if path.is_dir() else [path, path.parent]:
        descriptor = os.open(found, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def forget(path: Path) -> None:
    """Takes files out of the page cache."""
    for found in path.rglob("*") if path.is_dir() else [path]:
        if found.is_file():
            descriptor = os.open(found, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def copy_into(loaded: State, into: State) -> None:
    """Fills the tensors of a job that goes on."""
    for name, tensor in into.items():
        tensor.copy_(loaded[name])


def save_torch(state: State, path: Path) -> None:
    torch.save(state, path)
    fsync(path)


def load_torch(path: Path, into: State) -> None:
    copy_into(torch.load(path, weights_only=True), into)


def save_dcp(state: State, path: Path) -> None:
    writer = dcp.FileSystemWriter(path, thread_count=4, sync_files=True)
    dcp.save(state, storage_writer=writer, no_dist=True)
    fsync(path)


def load_dcp(path: Path, into: State) -> None:
    dcp.load(into, storage_reader=dcp.FileSystemReader(path), no_dist=True)


def save_safetensors(state: State, path: Path) -> None:
    safetensors.torch.save_file(state, path)
    fsync(path)


def load_safetensors(path: Path, into: State) -> None:
    copy_into(safetensors.torch.load_file(path), into)


def save_ours(state: State, path: Path) -> None:
    savemark.save(state, str(path))


def load_ours(path: Path, into: State) -> None:
    savemark.restore(str(path), into)


SIDES: dict[str, tuple[Callable[[State, Path], None], Callable[[Path, State], None]]] = {
    "savemark": (save_ours, load_ours),
    "torch.save": (save_torch, load_torch),
    "DCP": (save_dcp, load_dcp),
    "safetensors": (save_safetensors, load_safetensors),
}


def measured(act: Callable[[], None]) -> tuple[float, float]:
    """Seconds of wall and of CPU time."""
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    act()
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fio(scratch: Path, operation: str) -> float:
    """Bytes per second of direct I/O, or 0 without fio."""
    if shutil.which("fio") is None:
        return 0.0
    words = f"--name=x --filename={scratch}/fio --rw={operation} --direct=1 --bs=1M --iodepth=8"
    words += " --ioengine=io_uring --size=1G --end_fsync=1 --output-format=json"
    out = subprocess.run(["fio", *words.split()], capture_output=True, text=True, check=True)
    return float(json.loads(out.stdout)["jobs"][0][operation]["bw_bytes"])


def main() -> int:
    """Returns the exit code: 1 if a load did not bring back what was saved."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    warnings.filterwarnings("ignore", message="torch.distributed is")  # one process is meant
    state = make(asked.gib)
    recycled = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    walls: dict[tuple[str, str], list[tuple[float, float]]] = {}
    ceilings: dict[str, list[float]] = {"write": [], "read": []}
    with tempfile.TemporaryDirectory(dir=asked.scratch) as folder:
        scratch = Path(folder)
        for _ in range(asked.rounds):
            for operation, rates in ceilings.items():
                rates.append(fio(scratch, operation))
            (scratch / "fio").unlink(missing_ok=True)
            for name, (save, load) in SIDES.items():
                path = scratch / name.replace(".", "-")
                found = measured(lambda save=save, path=path: save(state, path))
                walls.setdefault((name, "save"), []).append(found)
                for column in ("recycled", "fresh"):
                    into = recycled
                    if column == "fresh":
                        into = {n: torch.empty_like(t) for n, t in state.items()}
                    forget(path)
                    found = measured(lambda load=load, path=path, into=into: load(path, into))
                    walls.setdefault((name, f"load {column}"), []).append(found)
                    if not all(torch.equal(into[n], t) for n, t in state.items()):
                        sys.stderr.write(f"{name} loaded something else\n")
                        return 1
                    del into
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    table(size(state), walls, ceilings)
    return 0


def table(size_bytes: int, walls: dict, ceilings: dict[str, list[float]]) -> None:
    """Prints medians, ratios to ours and CPU."""
    print(f"{size_bytes / (1 << 30):.1f} GiB, torch {torch.__version__}, fio", end=" ")
    print(" · ".join(f"{o} {statistics.median(r) / 1e9:.2f} GB/s" for o, r in ceilings.items()))
    for column in ("save", "load recycled", "load fresh"):
        ours = statistics.median(wall for wall, _ in walls["savemark", column])
        for name in SIDES:
            found = walls[name, column]
            wall = statistics.median(w for w, _ in found)
            cpu = statistics.median(c for _, c in found) / (size_bytes / 1e9)
            ratio = f"{wall / ours:5.2f}×" if name != "savemark" else "      "
            rate = size_bytes / wall / 1e9
            print(f"{column:<14} {name:<12} {rate:5.2f} GB/s  {ratio}  {cpu:5.2f} CPU-s/GB")


if __name__ == "__main__":
    sys.exit(main())
