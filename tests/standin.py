"""NVIDIA's libraries where there is no GPU (crates/testing/src/standin.c), and arrays in it.

The engine loads libraries once per process, so what uses them runs in one of its own: `python`.
Run as a program, this file only makes the library.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).parent.parent / "crates" / "testing" / "src" / "standin.c"
VARIABLES = ("SAVEMARK_LIBCUDA", "SAVEMARK_LIBCUFILE", "SAVEMARK_LIBNVML")
PAGE = 4096


def make(folder):
    """Compile the library into a folder; None where there is no compiler, or no source."""
    if shutil.which("cc") is None or not SOURCE.exists():
        return None
    library = Path(folder) / "libstandin.so"
    flags = ["-shared", "-fPIC", "-O1", "-pthread"]
    subprocess.run(["cc", *flags, "-o", library, SOURCE], check=True, timeout=300)
    return library


def environment(library, **more):
    """The environment of a process that is to use the library."""
    return {**os.environ, **dict.fromkeys(VARIABLES, str(library)), **more}


def python(library, code, **more):
    """Run code in a process that has the library's GPUs; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment(
            library, PYTHONPATH=os.pathsep.join([str(Path(__file__).parent), *sys.path]), **more
        ),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def driver():
    """The library, in a process that was started with it."""
    return ctypes.CDLL(os.environ["SAVEMARK_LIBCUDA"])


class Array:
    """An array in a GPU's memory, as far as others can see: where it is, and what it looks like."""

    def __init__(self, values, gpu=0, *, strides=None, readonly=False):
        cuda, values = driver(), np.ascontiguousarray(values)
        self.shape, self.dtype, self.nbytes = values.shape, values.dtype, values.nbytes
        self._strides, self._readonly = strides, readonly
        device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
        cuda.cuDeviceGet(ctypes.byref(device), gpu)
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        assert cuda.cuCtxSetCurrent(context) == 0
        assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(max(self.nbytes, 1))) == 0
        self._context, self.address = context, address.value
        self.set(values)

    @property
    def __cuda_array_interface__(self):
        """Version 3 of the interface."""
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, self._readonly),
            "strides": self._strides,
            "version": 3,
        }

    def set(self, values):
        """Copy values into it."""
        self._copy("cuMemcpyHtoD_v2", ctypes.c_uint64(self.address), np.ascontiguousarray(values))

    def get(self):
        """Return a copy in the host's memory."""
        made = np.empty(self.shape, self.dtype)
        self._copy("cuMemcpyDtoH_v2", None, made)
        return made

    def _copy(self, name, to, host):
        if self.nbytes == 0:
            return
        cuda, pointer = driver(), ctypes.c_void_p(host.ctypes.data)
        cuda.cuCtxSetCurrent(self._context)
        pair = (to, pointer) if to is not None else (pointer, ctypes.c_uint64(self.address))
        assert getattr(cuda, name)(*pair, ctypes.c_size_t(self.nbytes)) == 0
