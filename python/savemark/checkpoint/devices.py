"""Arrays in the memory of GPUs: torch's CUDA tensors, and whatever tells its address.

That is `__cuda_array_interface__`, which cupy, numba and others have. No library is imported here,
and none is needed: the engine copies by address, with NVIDIA's driver.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from savemark.errors import SavemarkError, from_exception, usage


@dataclass(frozen=True)
class OnGpu:
    """Bytes in a GPU's memory; `owner` is what keeps them there."""

    gpu: int
    address: int
    nbytes: int
    owner: Any


def interface(value: object) -> dict[str, Any] | None:
    """Return the CUDA array interface of an object, None where it has none."""
    found = getattr(value, "__cuda_array_interface__", None)
    return found if isinstance(found, dict) else None


def dtype_name(value: Any, where: str) -> str:
    """Return the dtype as numpy writes it, `<f4`; refuse what is not plain data."""
    typestr = str(value.__cuda_array_interface__["typestr"])
    if typestr[1:2] in ("O", "V", "t", "b") and not typestr.startswith("|b1"):
        raise usage(
            f"{where} has the type {typestr}, which is not plain data",
            "save its fields as arrays of their own",
        )
    return typestr


def bytes_of(value: Any, where: str) -> OnGpu:
    """Return the bytes of an object with the interface; refuse what is not contiguous."""
    told = value.__cuda_array_interface__
    if told.get("mask") is not None:
        raise usage(f"{where} has a mask", "save the data and the mask as arrays of their own")
    if not is_contiguous(told):
        raise usage(
            f"{where} is not contiguous in the GPU's memory",
            "save a copy that is: cupy.ascontiguousarray(array)",
        )
    return on_gpu(int(told["data"][0]), _nbytes(told), value, where)


def is_writeable(value: Any) -> bool:
    """Tell whether the interface allows writing."""
    return not value.__cuda_array_interface__["data"][1]


def on_gpu(address: int, nbytes: int, owner: Any, where: str) -> OnGpu:
    """Return `nbytes` at an address, with the GPU that the driver says they are on."""
    import savemark._engine as engine

    if nbytes == 0:
        return OnGpu(0, 0, 0, owner)
    try:
        gpu = engine.gpu_of(address)
    except engine.EngineError as error:
        raise (from_exception(error) or error) from error
    if gpu is None:
        raise SavemarkError(
            "usage",
            f"{where} says that it is on a GPU, and the driver does not know its memory",
            "it may have been freed, or belong to another process",
        )
    return OnGpu(gpu, address, nbytes, owner)


def _nbytes(told: dict[str, Any]) -> int:
    return int(math.prod(told["shape"])) * itemsize(str(told["typestr"]))


def itemsize(typestr: str) -> int:
    """Return the bytes of one element; of text, numpy counts characters of four bytes."""
    count = int(typestr[2:])
    return 4 * count if typestr[1] == "U" else count


def is_contiguous(told: dict[str, Any]) -> bool:
    """Tell whether the elements lie together in the order of the last axis first (C)."""
    strides = told.get("strides")
    if strides is None or 0 in told["shape"]:
        return True
    expected = itemsize(str(told["typestr"]))
    for size, stride in zip(reversed(told["shape"]), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
