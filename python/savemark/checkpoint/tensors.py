"""Tensors of torch: what they are, where they lie, and how they are made again."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from savemark.checkpoint import devices
from savemark.checkpoint.memory import Ints, Memory, same_strides, strides_of
from savemark.errors import usage

# Kinds of tensors that cannot be saved as they are, by the name of their class.
INSTEAD = {
    "DTensor": "save this rank's part, tensor.to_local(), or the whole: tensor.full_tensor()",
    "FakeTensor": "it has no data: save outside of FakeTensorMode",
    "NestedTensor": "save its parts: tensor.unbind()",
    "UninitializedParameter": "it has no data yet: run the model once",
}


def is_tensor(value: object) -> bool:
    """Tell whether it is a tensor, of any kind; imports nothing."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_parameter(value: Any) -> bool:
    """Tell whether a tensor is a parameter of a module."""
    return type(value) is import_module("torch").nn.Parameter


def check(value: Any, where: object) -> None:
    """Refuse, by its name, a tensor that has no plain memory, or would come back as another."""
    torch = import_module("torch")
    kind = type(value)
    hint = "save dense tensors on the CPU or on CUDA GPUs: tensor.cpu()"
    if kind not in (torch.Tensor, torch.nn.Parameter):
        what = f"a {kind.__module__}.{kind.__qualname__}, not a plain tensor"
        hint = INSTEAD.get(kind.__name__, "save the plain tensors that it is made of")
    elif value.is_nested:
        what, hint = "a nested tensor", INSTEAD["NestedTensor"]
    elif value.is_quantized:
        what = f"a quantized tensor ({value.dtype})"
        hint = "save tensor.int_repr() with its scales and zero points, or tensor.dequantize()"
    elif value.layout is not torch.strided:
        what = f"a tensor of layout {value.layout}"
        hint = "save its indices and values as tensors of their own, or tensor.to_dense()"
    elif value.device.type == "meta":
        what = "a tensor on meta: it has no data"
        hint = "give the model memory first: module.to_empty(device='cpu')"
    elif value.device.type not in ("cpu", "cuda"):
        what = f"a tensor on {value.device}"
    else:
        return
    raise usage(f"{where} is {what}", hint)


def dtype_name(value: Any) -> str:
    """Return the dtype as the index writes it: `bfloat16`."""
    return str(value.dtype).removeprefix("torch.")


def is_lazy(value: Any) -> str | None:
    """Return what makes a tensor's memory differ from its values: a lazy conjugate, or negative."""
    flags = ("conj", value.is_conj()), ("neg", value.is_neg())
    return next((name for name, is_so in flags if is_so), None)


def memory_of(value: Any, where: object) -> Memory:
    """Return where a dense tensor lies."""
    item = value.element_size()
    strides = tuple(stride * item for stride in value.stride())
    shape, address = tuple(value.shape), value.data_ptr()
    gpu = None
    if value.device.type == "cuda":
        gpu = devices.gpu_of(address, 0 in shape, where)
    return Memory(gpu, address, shape, strides, item, value)


def packed(value: Any) -> Any:
    """Return the values as a contiguous tensor; a copy where they are not one."""
    return value.detach().resolve_conj().resolve_neg().contiguous()


def empty(dtype: str, shape: Ints, strides: Ints | None, device: Any) -> Any:
    """Return a tensor to restore into; strides in bytes, without gaps."""
    torch = import_module("torch")
    kind = getattr(torch, dtype)
    device = device or "cpu"  # whatever torch's default is
    item = item_bytes(dtype) or 1
    if strides is None or same_strides(shape, strides, strides_of(shape, item)):
        return torch.empty(shape, dtype=kind, device=device)
    steps = tuple(stride // item for stride in strides)
    return torch.empty_strided(shape, steps, dtype=kind, device=device)


def view(room: Any, dtype: str, shape: Ints, strides: Ints, offset: int) -> Any:
    """Return a tensor over a block of bytes, of torch or numpy."""
    torch = import_module("torch")
    item = item_bytes(dtype) or 1
    storage = (room if is_tensor(room) else torch.from_numpy(room)).untyped_storage()
    steps = tuple(stride // item for stride in strides)
    made = torch.empty(0, dtype=getattr(torch, dtype), device="cpu")
    return made.set_(storage, offset // item, shape, steps)


def copy(destination: Any, source: Any) -> None:
    """Copy the elements into a tensor, to another device too."""
    destination.detach().copy_(import_module("torch").as_tensor(source))


def as_saved(value: Any, is_parameter: bool, requires_grad: bool) -> Any:
    """Return a restored tensor as what was saved: a parameter, or one that asks for gradients."""
    if is_parameter:
        return import_module("torch").nn.Parameter(value, requires_grad=requires_grad)
    return value.detach().requires_grad_() if requires_grad else value


def item_bytes(dtype: str) -> int | None:
    """Return the bytes of an element; None where torch has no such dtype of plain data."""
    torch = import_module("torch")
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        return None
    try:
        made = torch.empty((), dtype=kind, device="cpu")
    except (RuntimeError, TypeError, NotImplementedError):
        return None
    return None if made.is_quantized else int(made.element_size())
