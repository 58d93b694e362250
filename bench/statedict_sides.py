"""The sides of statedict.py: each way to save tensors, and the ways to load what it wrote."""

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp

import savemark


def optional(name: str) -> ModuleType | None:
    """A module that is compared if it is installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        sys.stderr.write(f"without {name}: {error}\n")
        return None


fastsafetensors = optional("fastsafetensors")
runai_model_streamer = optional("runai_model_streamer")

State = dict[str, torch.Tensor]


def fsync(path: Path) -> None:
    """Makes a file or everything in a directory durable."""
    for found in [*path.rglob("*"), path] if path.is_dir() else [path, path.parent]:
        descriptor = os.open(found, os.O_RDONLY)
        os.fsync(descriptor)
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


def load_ours_in_place(path: Path, into: State) -> None:
    savemark.restore(str(path), into, in_place=True)


def load_fastsafetensors(path: Path, into: State) -> None:
    loader = fastsafetensors.SafeTensorsFileLoader(
        fastsafetensors.SingleGroup(), device="cpu", nogds=True
    )
    loader.add_filenames({0: [str(path)]})
    buffers = loader.copy_files_to_device()
    for name, tensor in into.items():
        tensor.copy_(buffers.get_tensor(name))
    buffers.close()
    loader.close()


def load_runai(path: Path, into: State) -> None:
    with runai_model_streamer.SafetensorsStreamer() as streamer:
        streamer.stream_file(str(path))
        for name, tensor in streamer.get_tensors():
            into[name].copy_(tensor)


Save = Callable[[State, Path], None]
Load = Callable[[Path, State], None]
# Each way to save, and the ways to load what it wrote.
SIDES: dict[str, tuple[Save, dict[str, Load]]] = {
    "savemark": (save_ours, {"savemark": load_ours, "savemark in place": load_ours_in_place}),
    "torch.save": (save_torch, {"torch.load": load_torch}),
    "DCP": (save_dcp, {"DCP": load_dcp}),
    "safetensors": (save_safetensors, {"safetensors": load_safetensors}),
}
if fastsafetensors:
    SIDES["safetensors"][1]["fastsafetensors"] = load_fastsafetensors
if runai_model_streamer:
    SIDES["safetensors"][1]["run:ai streamer"] = load_runai
