"""Arrays in the memory of GPUs: torch's CUDA tensors, and whatever tells its address.

That is `__cuda_array_interface__`, which cupy, numba and others have. No library is imported here,
and none is needed: the engine copies by address, with NVIDIA's driver.
"""

from __future__ import annotations

from typing import Any

from savemark.checkpoint.memory import Memory, same_strides, strides_of
from savemark.errors import SavemarkError, from_exception, usage


def interface(value: object) -> dict[str, Any] | None:
    """Return the CUDA array interface of an object, None where it has none."""
    described = getattr(value, "__cuda_array_interface__", None)
    return described if isinstance(described, dict) else None


def dtype_name(value: Any, where: object) -> str:
    """Return the dtype as numpy writes it, `<f4`; refuse what is not plain data."""
    typestr = str(value.__cuda_array_interface__["typestr"])
    if typestr[1:2] in ("O", "V", "t", "b") and not typestr.startswith("|b1"):
        raise usage(
            f"{where} has the type {typestr}, which is not plain data",
            "save its fields as arrays of their own",
        )
    return typestr


def memory_of(value: Any, where: object) -> Memory:
    """Return where an object with the interface lies; refuse what is not contiguous."""
    interface = value.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise usage(f"{where} has a mask", "save the data and the mask as arrays of their own")
    shape, item = tuple(interface["shape"]), itemsize(str(interface["typestr"]))
    strides = strides_of(shape, item)
    if not same_strides(shape, strides, tuple(interface.get("strides") or strides)):
        raise usage(
            f"{where} is not contiguous in the GPU's memory",
            "save a copy that is: cupy.ascontiguousarray(array)",
        )
    address = int(interface["data"][0])
    return Memory(gpu_of(address, 0 in shape, where), address, shape, strides, item, value)


def is_writeable(value: Any) -> bool:
    """Tell whether the interface allows writing."""
    return not value.__cuda_array_interface__["data"][1]


def gpu_of(address: int, is_empty: bool, where: object) -> int:
    """Return the GPU that the driver says an address is on."""
    import savemark._engine as engine

    if is_empty:
        return 0
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
    return gpu


def itemsize(typestr: str) -> int:
    """Return the bytes of one element; of text, numpy counts characters of four bytes."""
    count = int(typestr[2:])
    return 4 * count if typestr[1] == "U" else count
