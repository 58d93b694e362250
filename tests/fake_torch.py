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

    is_quantized = is_nested = requires_grad = False

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

    def is_conj(self):
        return False

    is_neg = is_conj

    def stride(self):
        """In elements; a contiguous array's, turned around where this is turned."""
        steps, step = [], 1
        for size in reversed(self._array.shape):
            steps.append(step)
            step *= max(size, 1)
        return tuple(steps if self._turned else reversed(steps))

    def data_ptr(self):
        if self.device.type == "cuda":
            return self._array.address
        return self._array.__array_interface__["data"][0]

    def detach(self):
        return self

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


def empty(shape, dtype=None, device=None):
    """A tensor that holds anything."""
    return Tensor(np.full(shape, 85, NUMPY[dtype.name]), device or "cpu", dtype)


def empty_strided(shape, strides, dtype=None, device=None):
    """The same, the first axis fastest."""
    assert list(strides) == sorted(strides)
    values = np.full(shape[::-1], 85, NUMPY[dtype.name])
    return Tensor(values, device or "cpu", dtype, turned=True)


class Parameter(Tensor):
    """A parameter of a module."""


module = types.ModuleType("torch")
module.nn = types.SimpleNamespace(Parameter=Parameter)
module.empty_strided = empty_strided
module.dtype, module.Tensor, module.empty, module.strided = dtype, Tensor, empty, object()
module.as_tensor = lambda value: value
for name in NUMPY:
    setattr(module, name, dtype(name))
sys.modules["torch"] = module
