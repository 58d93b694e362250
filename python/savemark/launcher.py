"""Which of how many processes this one is, as the launcher that started it says."""

from __future__ import annotations

import os
from typing import NamedTuple

# How launchers say how many there are, and which of them this one is.
LAUNCHERS = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),  # Open MPI
    ("PMI_SIZE", "PMI_RANK"),  # MPICH's Hydra, Intel MPI, Cray
    ("MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"),  # MVAPICH
    ("FLUX_JOB_SIZE", "FLUX_TASK_RANK"),
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),  # srun; a batch script has no tasks of a step
)


class Rank(NamedTuple):
    """Which process this is, from 0 on, of how many."""

    rank: int
    world: int


def launched() -> Rank:
    """Return which process this is, as the launcher says: 0 of 1 without one."""
    for size, rank in LAUNCHERS:
        if os.environ.get(size, "").isdigit():
            number = os.environ.get(rank, "")
            return Rank(int(number) if number.isdigit() else 0, int(os.environ[size]))
    return Rank(0, 1)
