"""Arrays of numpy and torch: what they are and where they lie, without importing either early."""

from __future__ import annotations

import math
import sys
from importlib import import_module
from typing import Any

from savemark.checkpoint import devices, tensors
from savemark.checkpoint.memory import Memory, same_strides, strides_of
from savemark.errors import SavemarkError, usage

Shape = tuple[int, ...]


def library_of(value: object) -> str | None:
    """Return `numpy` or `torch` for an array, None for anything else; imports nothing.

    An array of another library in a GPU's memory is numpy's: without a GPU it is restored as that.
    """
    if tensors.is_tensor(value):
        return "torch"
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        return "numpy"
    return "numpy" if devices.interface(value) is not None else None


def is_foreign(value: Any) -> bool:
    """Tell whether an array is of neither library, and known by its address on a GPU."""
    numpy = sys.modules.get("numpy")
    is_numpy = numpy is not None and isinstance(value, numpy.ndarray | numpy.generic)
    return not is_numpy and not tensors.is_tensor(value)


def is_scalar(value: Any) -> bool:
    """Tell whether it is a single value of numpy's, which cannot be changed."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic)


def is_writeable(value: Any) -> bool:
    """Tell whether it can be restored into."""
    if tensors.is_tensor(value):
        return True
    return devices.is_writeable(value) if is_foreign(value) else bool(value.flags.writeable)


def check(value: Any, where: object) -> None:
    """Refuse, by its name, an array that would not come back as what it is."""
    if tensors.is_tensor(value):
        tensors.check(value, where)
        return
    if is_foreign(value) or is_scalar(value):
        return
    numpy = sys.modules["numpy"]
    if type(value) not in (numpy.ndarray, numpy.memmap):
        raise usage(
            f"{where} is a {type(value).__name__}, a kind of array that would come back as another",
            "save the arrays that it is made of: numpy.asarray(array), and of a masked one .mask",
        )


def dtype_name(value: Any, where: object) -> str:
    """Return the dtype as the index writes it: `<f4`, `bfloat16`; refuse what is not plain data."""
    if tensors.is_tensor(value):
        return tensors.dtype_name(value)
    if is_foreign(value):
        return devices.dtype_name(value, where)
    dtype = value.dtype
    if dtype.hasobject or dtype.names is not None or dtype.itemsize == 0:
        raise usage(
            f"{where} has the dtype {dtype}, which is not plain data",
            "save its fields as arrays of their own",
        )
    # Extensions such as ml_dtypes.bfloat16 call themselves void; their name says more.
    is_extension = dtype.kind == "V" and not dtype.name.startswith("void")
    return str(dtype.name if is_extension else dtype.str)


def memory_of(value: Any, where: object) -> Memory:
    """Return where an array lies: its first element, shape and strides, and on which GPU."""
    if tensors.is_tensor(value):
        return tensors.memory_of(value, where)
    if is_foreign(value):
        return devices.memory_of(value, where)
    owner = sys.modules["numpy"].asarray(value)  # a scalar becomes an array of its own
    address = int(owner.__array_interface__["data"][0])
    return Memory(None, address, owner.shape, owner.strides, owner.itemsize, owner)


def packed(value: Any) -> Any:
    """Return a copy whose elements lie together, in the order of the last axis first (C)."""
    if tensors.is_tensor(value):
        return tensors.packed(value)
    return import_module("numpy").array(value, order="C", subok=False)


def empty(
    library: str, dtype: str, shape: Shape, strides: Shape | None = None, device: Any = None
) -> Any:
    """Return an array to restore into, of torch on `device`; strides in bytes, without gaps."""
    if library == "torch":
        return tensors.empty(dtype, shape, strides, device)
    numpy, kind = import_module("numpy"), _numpy_dtype(dtype)
    if strides is None or same_strides(shape, strides, strides_of(shape, kind.itemsize)):
        return numpy.empty(shape, kind)
    return numpy.ndarray(shape, kind, numpy.empty(math.prod(shape), kind), strides=strides)


def block(library: str, nbytes: int) -> Any:
    """Return bytes over which arrays can be laid with `view`."""
    return empty(library, "uint8" if library == "torch" else "|u1", (nbytes,))


def view(room: Any, library: str, dtype: str, shape: Shape, strides: Shape, offset: int) -> Any:
    """Return an array over a block, its first element `offset` bytes after the block's start."""
    if library == "torch":
        return tensors.view(room, dtype, shape, strides, offset)
    flat = room.numpy() if tensors.is_tensor(room) else room
    numpy = import_module("numpy")
    return numpy.ndarray(shape, _numpy_dtype(dtype), flat, offset, strides)


def copy(destination: Any, source: Any) -> None:
    """Copy the elements of an array into another one of the same shape."""
    if tensors.is_tensor(destination):
        tensors.copy(destination, source)
    else:
        destination[...] = source


def item_bytes(library: str, dtype: str) -> int | None:
    """Return the bytes of an element; None where the dtype is not known here as plain data.

    An index may come from anywhere: nothing is believed of the name.
    """
    if library == "torch":
        return tensors.item_bytes(dtype)
    try:
        known = _numpy_dtype(dtype)
    except (TypeError, ValueError, ImportError, AttributeError, SyntaxError):
        return None
    plain = not known.hasobject and known.names is None and known.subdtype is None
    return int(known.itemsize) or None if plain else None


def _numpy_dtype(name: str) -> Any:
    numpy = import_module("numpy")
    try:
        return numpy.dtype(name)
    except TypeError:
        return numpy.dtype(getattr(import_module("ml_dtypes"), name))


def share(one: Memory, other: Memory) -> bool:
    """Tell whether two arrays have a byte in common."""
    if one.gpu != other.gpu or one.low >= other.high or other.low >= one.high:
        return False
    if one.is_dense and other.is_dense:
        return True
    try:
        numpy = import_module("numpy")
        arrays = [numpy.asarray(_Addressed(memory)) for memory in (one, other)]
        return bool(numpy.shares_memory(*arrays, max_work=100_000))
    except (ImportError, RuntimeError):  # too hard to tell: as if they did
        return True


class _Addressed:
    """Memory as numpy takes it to compare addresses; nobody reads what is there."""

    def __init__(self, memory: Memory) -> None:
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{memory.item}",
            "shape": memory.shape,
            "strides": memory.strides,
            "data": (memory.first, True),
        }


def require(library: str) -> None:
    """Refuse, with the fix, where the library that the checkpoint was made with is not there."""
    try:
        import_module(library)
    except ImportError:
        raise SavemarkError(
            "failed", f"the checkpoint holds {library} arrays", f"pip install {library}"
        ) from None
