"""States in GPUs' memory, and files read into it, on a machine with a GPU: under ten minutes.

    python bench/gpu.py SCRATCH [--gib 16] [--rounds 3] [--gpus 0]

What is missing (the driver, torch with CUDA, cuFile, room) is skipped by name. Everything runs in
turn in every round; figures are medians of rounds, ratios are medians of the rounds' own.

* staging: the stall of a save against a plain cuMemcpyDtoHAsync of as many bytes into pinned
  memory, by the driver alone.
* save: durable, against what the disk takes in the same run; restore, verified to the last byte in
  the GPU's memory.
* torch: torch.save and torch.distributed.checkpoint of the same CUDA tensors, durable, too.
* cuFile: which way it moves bytes here, and who counted them.

Expected (and why), to be held against what comes out:
* staging 0.95 of the plain copy: the same copies in chunks of 8 MiB, sixteen in flight on two
  streams; a chunk's start costs 2 µs of its 150 µs at 55 GB/s.
* stall 1.05 times the plain copy: the state has a slot for each chunk, so nothing waits for the
  disk, except in the first round, in which memory is pinned.
* save 0.9 of the disk: what is missing is opening shards, one fsync each, and the manifest.
* torch.save a fifth of us: one thread, through pickle, zip and the page cache.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sides import Sample, Side, goal, interleave, rate, ratio, say

from savemark import _engine
from savemark.run import wheels

CHUNK = 8 << 20
PIECE = 64 << 20
Json = dict[str, Any]


class Driver:
    """libcuda.so.1, for the copy that nothing can beat: one stream, pinned memory, no disk."""

    def __init__(self) -> None:
        """Load it; OSError where there is none."""
        self.library = ctypes.CDLL(os.environ.get("SAVEMARK_LIBCUDA") or "libcuda.so.1")
        self("cuInit", 0)

    def __call__(self, name: str, *arguments: object) -> None:
        """Call a function; its error is ours."""
        code = getattr(self.library, name)(*arguments)
        if code:
            raise OSError(f"{name}: error {code}")

    def enter(self, gpu: int) -> None:
        """Use a GPU on this thread."""
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self("cuDeviceGet", ctypes.byref(device), gpu)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)

    @contextmanager
    def copying(self, gpu: int, size: int) -> Iterator[Callable[[], float]]:
        """Give a function that copies `size` bytes out of the GPU, and returns the seconds.

        One pinned piece of the host's memory takes all of them in turn: the rate is that of the
        link, and no more memory is pinned than a save pins.
        """
        self.enter(gpu)
        address, stream, piece = ctypes.c_uint64(), ctypes.c_void_p(), min(PIECE, size)
        room = ctypes.create_string_buffer(piece + 4096)
        start = ctypes.c_void_p((ctypes.addressof(room) + 4095) // 4096 * 4096)
        self("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(piece))
        self("cuStreamCreate", ctypes.byref(stream), 1)
        self("cuMemHostRegister_v2", start, ctypes.c_size_t(piece), 1)

        def copy() -> float:
            self.enter(gpu)
            began = time.perf_counter()
            left = size
            while left > 0:
                now = ctypes.c_size_t(min(left, piece))
                self("cuMemcpyDtoHAsync_v2", start, address, now, stream)
                left -= piece
            self("cuStreamSynchronize", stream)
            return time.perf_counter() - began

        try:
            yield copy
        finally:
            self("cuMemHostUnregister", start)
            self("cuStreamDestroy_v2", stream)
            self("cuMemFree_v2", address)


def record(engine: _engine.Engine, folder: Path, **trial: object) -> Json:
    """One trial."""
    return dict(json.loads(engine.run(json.dumps({"target": str(folder), "seed": 1, **trial}))))


def phase(found: Json, name: str) -> Json:
    """One of its phases."""
    return next(dict(each) for each in found["phases"] if each["name"] == name)


def sample(seconds: float, size: int, cpu_s: float = 0.0) -> Sample:
    """Bytes in so many seconds."""
    return Sample(seconds, size, 0, cpu_s)


def states(folder: Path, size: int, gpus: str, rounds: int) -> None:
    """Save and restore of a generated state, the plain copy, and the disk."""
    engine, driver, storage = _engine.Engine(), Driver(), storage_of(folder)
    trial = {"workload": "checkpoint", "state": f"gpu:{gpus}", "size": size, **storage}
    trial |= {"chunk_size": CHUNK, "streams": 4, "queue_depth": 2}
    last: Json = {}

    def save() -> Sample:
        nonlocal last
        last = record(engine, folder, **trial)
        found = phase(last, "save")
        cpu_s = (found["cpu_user_ns"] + found["cpu_system_ns"]) / 1e9
        return sample(found["elapsed_ns"] / 1e9, found["user_bytes"], cpu_s)

    def disk() -> Sample:
        options = {"workload": "sequential", "operation": "write", "sync": "end", "workers": 4}
        found = phase(record(engine, folder, **options, size=size, **storage), "write")
        return sample(found["elapsed_ns"] / 1e9, found["user_bytes"])

    def of_last(name: str, key: str) -> Callable[[], Sample]:
        return lambda: sample(phase(last, name)[key] / 1e9, phase(last, name)["user_bytes"])

    stalls, restores = Side("stall", of_last("save", "stall_ns")), Side("restore", save)

    def save_and_look() -> Sample:
        one = save()
        stalls.samples.append(of_last("save", "stall_ns")())
        restores.samples.append(of_last("restore", "elapsed_ns")())
        return one

    first = int(gpus.partition(",")[0].partition("-")[0])
    with driver.copying(first, size) as copy:
        plain = Side(f"GPU {first} alone", lambda: sample(copy(), size))
        saves, disks = Side("save", save_and_look), Side("disk", disk)
        interleave([plain, saves, disks], rounds)
    for side in (stalls, restores):
        del side.samples[:1]  # the round that warms up
    say(f"{size >> 20} MiB on GPU {gpus}: {'; '.join(last['path']['notes'])}")
    for side in (plain, stalls, saves, restores, disks):
        say(f"  {side.name:12} {side.median(rate):8.2f} GB/s")
    goal("staging / plain copy", ratio(stalls, plain, rate), 0.90)
    goal("stall / plain copy, seconds", 1 / ratio(stalls, plain, rate), 1.2, most=True)
    goal("save / disk", ratio(saves, disks, rate), 0.85)
    verified = str(phase(last, "restore")["verified"])
    goal(f"restored: {verified}", float("every byte in the GPUs" in verified), 1)


def storage_of(folder: Path) -> Json:
    """Direct I/O through io_uring, or what works here, which is said."""
    facts = {each["name"]: each for each in json.loads(_engine.features())}
    if json.loads(_engine.host(str(folder)))["target"]["class"] == "memory":
        say(f"without direct I/O: {folder} is in memory")
        return {"storage": "posix", "direct": False}
    if not facts["io_uring"]["available"]:
        say(f"without io_uring: {facts['io_uring']['reason']}")
        return {"storage": "posix"}
    return {"storage": "uring"}


def fsync(path: Path) -> None:
    """Make a file or everything in a directory durable."""
    for found in [*path.rglob("*"), path] if path.is_dir() else [path, path.parent]:
        descriptor = os.open(found, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def against_torch(folder: Path, size: int, rounds: int) -> None:
    """torch.save and torch.distributed.checkpoint of the same CUDA tensors, durable as ours."""
    if importlib.util.find_spec("torch") is None:
        say("skipped torch: it is not installed")
        return
    import torch
    import torch.distributed.checkpoint as dcp

    if not torch.cuda.is_available():
        say("skipped torch: it has no CUDA here")
        return
    import savemark

    size = min(size, 8 << 30)  # the slow sides set the time of this part
    count = max(1, size // (256 << 20))
    state = {
        f"layer.{i}": torch.randint(0, 256, (256 << 20,), dtype=torch.uint8, device="cuda")
        for i in range(count)
    }
    moved = sum(tensor.nbytes for tensor in state.values())

    def timed(name: str, save: Callable[[Path], object]) -> Side:
        def run() -> Sample:
            path = folder / name
            torch.cuda.synchronize()
            began = time.perf_counter()
            save(path)
            seconds = time.perf_counter() - began
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            return sample(seconds, moved)

        return Side(name, run)

    def torch_save(path: Path) -> None:
        torch.save(state, path)
        fsync(path)

    def distributed(path: Path) -> None:
        writer = dcp.FileSystemWriter(path, thread_count=4, sync_files=True)
        dcp.save(state, storage_writer=writer, no_dist=True)
        fsync(path)

    ours = timed("savemark", lambda path: savemark.save(state, str(path), chunk_size=CHUNK))
    others = [timed("torch.save", torch_save), timed("torch DCP", distributed)]
    interleave([ours, *others], rounds)
    say(f"{count} CUDA tensors, {moved >> 20} MiB, durable")
    for side in (ours, *others):
        say(f"  {side.name:12} {side.median(rate):8.2f} GB/s")
    for side in others:
        goal(f"savemark / {side.name}", ratio(ours, side, rate), 3)
    savemark.save(state, str(folder / "check"), chunk_size=CHUNK)
    into = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    savemark.restore(str(folder / "check"), into)
    same = all(torch.equal(into[name], tensor) for name, tensor in state.items())
    goal("restored byte for byte", float(same), 1)


def ways(folder: Path, gpus: str) -> None:
    """Which ways there are from the disk into a GPU, how fast, and who counted the bytes."""
    wheels.find()
    engine = _engine.Engine()
    base = {"workload": "sequential", "operation": "read", "storage": "gds", "gpus": gpus}
    base |= {"size": 1 << 30, "transfer_size": 4 << 20, "workers": 8, "duration": "3s"}
    say("ways into the GPU")
    for transfer in ("gpudirect", "compat", "bounce", "cpu"):
        try:
            found = record(engine, folder, **base, transfer=transfer)
        except _engine.EngineError as error:
            say(f"  skipped {transfer}: {error.message}")
            continue
        read = phase(found, "read")
        seconds, moved = read["elapsed_ns"] / 1e9, read["user_bytes"]
        cpu = (read["cpu_user_ns"] + read["cpu_system_ns"]) / moved
        proof = f"nvidia-fs {read['gds_bytes']}, cuFile {read.get('cufile')}, of {moved} bytes"
        say(f"  {transfer:10} {moved / seconds / 1e9:7.2f} GB/s, {cpu:.3f} CPU-s/GB; {proof}")
        say(f"             path: {found['path']['storage']}; {'; '.join(found['path']['notes'])}")


def main() -> None:
    """Everything, on one folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--gib", type=float, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gpus", default="0", help="0, 0,1 or 0-7")
    given = parser.parse_args()
    size = int(given.gib * (1 << 30)) // CHUNK * CHUNK
    facts = {each["name"]: each for each in json.loads(_engine.features())}
    say(f"cuda: {facts['cuda']['reason']}")
    say(f"gds:  {facts['gds']['reason']}")
    for each in json.loads(_engine.host(str(given.scratch)))["gpus"]:
        say(f"gpu:  {json.dumps(each)}")
    if not facts["cuda"]["available"]:
        say("skipped everything: there is no GPU to measure")
        return
    free = shutil.disk_usage(given.scratch).free
    if free < 2.5 * size:
        sys.exit(
            f"{given.scratch} has {free >> 30} GiB free, and {2.5 * size / 2**30:.0f} are needed"
        )
    with tempfile.TemporaryDirectory(dir=given.scratch) as folder:
        began = time.monotonic()
        states(Path(folder), size, given.gpus, given.rounds)
        ways(Path(folder), given.gpus)
        against_torch(Path(folder), size, given.rounds)
        say(f"took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
