"""Tools whose workers are ranks of MPI."""

from __future__ import annotations


def launched(workers: int, words: list[str]) -> tuple[str, ...]:
    """Return the command line with that many ranks on this machine; one rank needs no launcher."""
    if workers == 1:
        return tuple(words)
    return ("mpirun", "--oversubscribe", "-np", str(workers), *words)


# Open MPI refuses root and says how to be allowed; harmless elsewhere.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
