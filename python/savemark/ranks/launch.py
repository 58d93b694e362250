"""Joins the other ranks that a launcher started, by mpi4py."""

from __future__ import annotations

import atexit
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from savemark.errors import RankLost, usage
from savemark.launcher import launched

if TYPE_CHECKING:
    from savemark.ranks.lead import Lead
    from savemark.ranks.world import World

# The library that a launcher speaks with, where mpi4py is not built for one of them alone.
LIBRARIES = {"OMPI_COMM_WORLD_SIZE": "libmpi.so.40", "PMI_SIZE": "libmpi.so.12"}
CONNECTED = 512
LIBMPI, MPIABI = "MPI4PY_LIBMPI", "MPI4PY_MPIABI"


def join() -> World | None:
    """Join the other ranks; None where this process was started alone, which loads no MPI.

    A usage error where mpi4py is missing or belongs to another MPI: as many runs as there are
    processes would write over each other.
    """
    _, count = launched()
    if count < 2:
        return None
    mpi = _load(count)
    seen = mpi.COMM_WORLD.Get_size()
    if seen != count:
        library = " ".join(mpi.Get_library_version().split()[:4])
        raise usage(
            f"{count} processes were started, but mpi4py sees {seen}: it uses {library}, "
            "which is not the launcher's",
            "start it with that library's own mpirun (under Slurm: srun --mpi=pmix), or name the "
            f"launcher's library: {LIBMPI}=/path/to/libmpi.so",
        )
    if mpi.Query_thread() < mpi.THREAD_SERIALIZED:
        raise usage(
            "this MPI library allows one thread alone; a trial meets from another one",
            "use a build with thread support, or set MPI4PY_RC_THREAD_LEVEL=serialized",
        )
    from savemark.ranks.world import TimedOut, World

    try:
        return World(mpi)
    except TimedOut as error:
        atexit.register(mpi.COMM_WORLD.Abort, 1)
        raise RankLost(f"not all of {count} ranks have come: {error}") from None


@contextmanager
def leading(world: World | None) -> Iterator[Lead | None]:
    """Lead the other ranks, if there are any, and let them go at the end in every case."""
    if world is None:
        yield None
        return
    from savemark.ranks.lead import Lead

    ranks = Lead(world)
    try:
        yield ranks
    finally:
        ranks.dismiss()


def _load(count: int) -> Any:
    """Import mpi4py with the launcher's library."""
    # Two ranks that connect to each other at the same moment lose the connection in Open MPI 4.1
    # over TCP. So few connect all in turn before they start.
    if "OMPI_COMM_WORLD_SIZE" in os.environ and count <= CONNECTED:
        os.environ.setdefault("OMPI_MCA_mpi_preconnect_mpi", "1")
    if LIBMPI not in os.environ and MPIABI not in os.environ:
        name = next((LIBRARIES[size] for size in LIBRARIES if size in os.environ), None)
        if name is not None:
            os.environ[LIBMPI] = f"{sys.prefix}/lib/{name}:{name}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of another MPI: said above, with what to do
            from mpi4py import MPI
    except ModuleNotFoundError:
        raise usage(
            f"{count} processes were started, and mpi4py is not here to join them",
            "pip install mpi4py, or start one process; as they are they would all write "
            "to the same place",
        ) from None
    except (ImportError, RuntimeError) as error:
        raise usage(
            f"mpi4py cannot load the launcher's MPI library: {str(error).splitlines()[-1]}",
            f"name it: {LIBMPI}=/path/to/libmpi.so; or build mpi4py with it: "
            "MPICC=mpicc pip install --no-binary mpi4py mpi4py",
        ) from None
    return MPI
