"""Bytes of numpy arrays and torch tensors, without importing either before it is needed."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from savemark.checkpoint import devices
from savemark.errors import SavemarkError, usage


def library_of(value: object) -> str | None:
    """Return `numpy` or `torch` for an array, None for anything else; imports nothing.

    An array of another library in a GPU's memory is numpy's: without a GPU it is restored as that.
    """
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        return "torch"
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        return "numpy"
    return "numpy" if devices.interface(value) is not None else None


def is_on_gpu(value: Any) -> bool:
    """Tell whether an array is in a GPU's memory."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return bool(value.device.type == "cuda")
    return _is_foreign(value)


def _is_foreign(value: Any) -> bool:
    """Tell whether an array is of neither library, and known by its address on a GPU."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        return False
    return devices.interface(value) is not None


def is_scalar(value: Any) -> bool:
    """Tell whether it is a single value of numpy's, which cannot be changed."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic)


def is_contiguous(value: Any) -> bool:
    """Tell whether its elements lie together, in the order of C."""
    if library_of(value) == "torch":
        return bool(value.is_contiguous())
    if _is_foreign(value):
        return devices.is_contiguous(value.__cuda_array_interface__)
    return bool(value.flags.c_contiguous)


def is_writeable(value: Any) -> bool:
    """Tell whether it can be restored into."""
    if library_of(value) == "torch":
        return True
    return devices.is_writeable(value) if _is_foreign(value) else bool(value.flags.writeable)


def dtype_name(value: Any, where: str) -> str:
    """Return the dtype as the index writes it: `<f4`, `bfloat16`; refuse what is not plain data."""
    if library_of(value) == "torch":
        return str(value.dtype).removeprefix("torch.")
    if _is_foreign(value):
        return devices.dtype_name(value, where)
    dtype = value.dtype
    if dtype.hasobject or dtype.names is not None:
        raise usage(
            f"{where} has the dtype {dtype}, which is not plain data",
            "save its fields as arrays of their own",
        )
    # Extensions such as ml_dtypes.bfloat16 call themselves void; their name says more.
    is_extension = dtype.kind == "V" and not dtype.name.startswith("void")
    return str(dtype.name if is_extension else dtype.str)


def bytes_of(value: Any, where: str) -> Any:
    """Return the array's own memory, flat: uint8, or where it is on a GPU.

    One that is not contiguous is copied first, where its own library can do that.
    """
    if library_of(value) == "torch":
        return _torch_bytes(value, where)
    if _is_foreign(value):
        return devices.bytes_of(value, where)
    numpy = import_module("numpy")
    return numpy.ascontiguousarray(value).reshape(-1).view(numpy.uint8)


def _torch_bytes(value: Any, where: str) -> Any:
    torch = import_module("torch")
    plain = value.layout is torch.strided and not value.is_quantized
    if not plain or value.device.type not in ("cpu", "cuda"):
        what = f"on {value.device}" if plain else f"of layout {value.layout}"
        raise usage(
            f"{where} is a tensor {what}",
            "save dense tensors on the CPU or on CUDA GPUs: tensor.cpu()",
        )
    flat = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    if value.device.type == "cuda":
        flat = flat.view(torch.uint8)
        return devices.on_gpu(flat.data_ptr(), flat.numel(), flat, where)
    return flat.view(torch.uint8).numpy()


def address(flat: Any) -> int:
    """Return where the bytes are."""
    if isinstance(flat, devices.OnGpu):
        return flat.address
    return int(flat.__array_interface__["data"][0])


def empty(library: str, dtype: str, shape: tuple[int, ...], device: Any = None) -> Any:
    """Return an array to restore into, of torch on `device`."""
    module = import_module(library)
    if library == "torch":
        return module.empty(shape, dtype=_torch_dtype(module, dtype), device=device)
    return module.empty(shape, dtype=_numpy_dtype(module, dtype))


def is_known(library: str, dtype: str) -> bool:
    """Tell whether the dtype of an index names plain data here; an index may come from anywhere."""
    module = import_module(library)
    try:
        if library == "torch":
            return _torch_dtype(module, dtype) is not None
        found = _numpy_dtype(module, dtype)
    except (TypeError, ValueError, ImportError, AttributeError, SyntaxError):
        return False
    return not found.hasobject and found.names is None


def _torch_dtype(torch: Any, name: str) -> Any:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"torch has no dtype {name}")
    return found


def _numpy_dtype(numpy: Any, name: str) -> Any:
    try:
        return numpy.dtype(name)
    except TypeError:
        return numpy.dtype(getattr(import_module("ml_dtypes"), name))


def item_bytes(library: str, dtype: str) -> int:
    """Return the bytes of one element."""
    module = import_module(library)
    if library == "torch":
        return int(module.empty((), dtype=_torch_dtype(module, dtype)).element_size())
    return int(_numpy_dtype(module, dtype).itemsize)


def require(library: str) -> None:
    """Refuse, with the fix, where the library that the checkpoint was made with is not there."""
    try:
        import_module(library)
    except ImportError:
        raise SavemarkError(
            "failed", f"the checkpoint holds {library} arrays", f"pip install {library}"
        ) from None
