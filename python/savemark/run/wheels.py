"""Libraries of NVIDIA that came as Python packages: the dynamic linker does not find them."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

VARIABLE = "SAVEMARK_LIBCUFILE"
NAME = "libcufile.so.0"


def find() -> None:
    """Name the library of a wheel (nvidia-cufile) to the engine, unless one is named already.

    libcuda.so.1 is part of the driver, and in no wheel.
    """
    if os.environ.get(VARIABLE):
        return
    # The wheels share the namespace package `nvidia`, so it may lie in several places.
    package = find_spec("nvidia")
    places = package.submodule_search_locations if package else None
    libraries = [path for place in places or () for path in Path(place).glob(f"*/lib/{NAME}")]
    if libraries:
        os.environ[VARIABLE] = str(sorted(libraries)[0])
