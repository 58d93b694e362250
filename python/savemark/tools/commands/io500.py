"""IO500: a fixed list of phases with rules of their own; no trial of ours is one of them."""

from __future__ import annotations

from savemark.errors import usage
from savemark.tools.commands.job import Job, Step

NAME = "io500"
VERSION = ("io500", "--version")
TARGETS = ("directory",)


def steps(job: Job) -> list[Step]:
    """Refuse: what it does is written in its own ini file, and its score needs all of it."""
    raise usage(
        f"io500 cannot express workload={job.trial['workload']}: it runs its own list of phases",
        "run it by itself, then: savemark import RESULT_FOLDER; or use --tool ior,mdtest",
    )
