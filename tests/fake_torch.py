"""As much of torch as savemark touches, with tensors on the stand-in's GPUs or in numpy arrays.

torch itself is no dependency, and its CPU builds have no CUDA: this shows which of a tensor's own
methods are asked, in which order, and that its address and length are what goes to the engine.
"""

import sys
import types

import numpy as np

from standin import Array


class dtype:  # noqa: N801 - as torch calls it
    """A dtype, by its name."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"torch.{self.name}"


NUMPY = {"float32": "<f4", "uint8": "u1", "bfloat16": "<u2", "int64": "<i8"}


class Device:
    """`cpu` or `cuda:1`."""

    def __init__(self, text):
        self.type, _, index = str(text).partition(":")
        self.index = int(index or 0)

    def __str__(self):
        return self.type if self.type == "cpu" else f"{self.type}:{self.index}"


class Tensor:
    """A dense tensor; `turned` is the transposed view of another, which is not contiguous."""

    is_quantized = False

    def __init__(self, values, device="cpu", kind=None, turned=False):
        self.device, self._turned = Device(device), turned
        self.dtype = kind or module.float32
        on_gpu = self.device.type == "cuda"
        self._array = Array(values, self.device.index) if on_gpu else np.ascontiguousarray(values)
        self.layout = module.strided

    @property
    def shape(self):
        shape = self._array.shape
        return shape[::-1] if self._turned else shape

    def values(self):
        found = self._array.get() if self.device.type == "cuda" else self._array
        return found.T if self._turned else found

    def like(self, values, kind=None):
        return Tensor(values, self.device, kind or self.dtype)

    def is_contiguous(self):
        return not self._turned

    def detach(self):
        return self

    resolve_conj = resolve_neg = detach

    def contiguous(self):
        return self.like(self.values()) if self._turned else self

    def reshape(self, *_):
        return self

    def view(self, kind):
        return self if kind is self.dtype else _Bytes(self)

    def element_size(self):
        return np.dtype(NUMPY[self.dtype.name]).itemsize

    def copy_(self, other):
        made = other.values()
        if self._turned:
            made = made.T
        if self.device.type == "cuda":
            self._array.set(made)
        else:
            self._array[...] = made
        return self


class _Bytes(Tensor):
    """The bytes of a contiguous tensor: another tensor over the same memory."""

    def __init__(self, tensor):
        assert tensor.is_contiguous()
        self._tensor = tensor

    def copy_(self, other):
        room = self._tensor._array
        made = np.frombuffer(other._tensor.values().tobytes(), room.dtype)
        room.set(made.reshape(room.shape))
        return self

    def data_ptr(self):
        return self._tensor._array.address

    def numel(self):
        return self._tensor._array.nbytes

    def numpy(self):
        return self._tensor._array.reshape(-1).view(np.uint8)


def empty(shape, dtype=None, device=None):
    """A tensor that holds anything."""
    return Tensor(np.full(shape, 85, NUMPY[dtype.name]), device or "cpu", dtype)


module = types.ModuleType("torch")
module.dtype, module.Tensor, module.empty, module.strided = dtype, Tensor, empty, object()
module.as_tensor = lambda value: value
for name in NUMPY:
    setattr(module, name, dtype(name))
sys.modules["torch"] = module
