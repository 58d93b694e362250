"""Whether the price of compression is shown, and threads have the processors they need."""

from __future__ import annotations

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import keys, listing, settings
from savemark.records.naming import PLAIN


@check(
    "HC-39",
    "What compression costs is shown",
    rule="codecs that compute, and no CPU-seconds or number of cores beside their times",
    verdict="NOTE",
    note="the cost of compression is not recorded",
)
def cost_shown(evidence: Evidence) -> Finding:
    """Note codecs whose CPU time nobody recorded."""
    coded = evidence.trials.filter(
        pl.col("codec").is_not_null() & ~pl.col("codec").is_in(list(PLAIN))
    )
    if coded.is_empty():
        return Finding(Verdict.OK, "Not applicable: nothing is compressed.")
    silent = coded.filter(pl.col("cpu_user_ns").is_null())
    if silent.is_empty():
        return Finding(Verdict.OK, "CPU-seconds per GiB stand beside every time.")
    return Finding(
        Verdict.NOTE,
        f"{listing(silent['codec'].unique().sort())}: the CPU time of the codec is not recorded.",
        "Processors that compress do not compute; a faster save may cost the job more.",
        "Measure with savemark, which records it, or add `time -v` (user + system seconds).",
    )


@check(
    "HC-30",
    "Threads have processors near the storage",
    rule="more workers than the processors that this process may use, of a machine that has more; "
    "several NUMA nodes, and where threads ran not recorded; a GPU on another node than the disk",
    verdict="NOTE",
    applies="L",
    note="not all processors could be used",
)
def near(evidence: Evidence) -> Finding:
    """Note workers that a cpuset or a quota makes share processors which lie idle."""
    host = evidence.run.host
    usable, there = host.cpu.available, host.cpu.logical
    if evidence.live.is_empty() or not usable:
        return Finding(Verdict.UNVERIFIED, "The processors that may be used are not recorded.")
    # Of one rank: others may be on other nodes, or bound to other processors.
    each = pl.col("worker_count") / pl.col("rank_count").fill_null(1)
    crowded = evidence.live.filter(each > usable)
    if there and usable < there and not crowded.is_empty():
        return _crowded(crowded, usable, there)
    if far := _far_gpus(evidence):
        return far
    nodes = host.numa_nodes or 1
    if nodes > 1:
        return Finding(
            Verdict.UNVERIFIED, f"There are {nodes} NUMA nodes; where threads ran is not recorded."
        )
    return Finding(Verdict.OK, f"One NUMA node, {usable} processors for this process.")


def _crowded(rows: pl.DataFrame, usable: int, there: int) -> Finding:
    """Say who keeps a process from processors: launchers of ranks do, unless told not to."""
    which, few = settings(keys(rows)), "1 processor" if usable == 1 else f"{usable} processors"
    if (rows["rank_count"].fill_null(1) > 1).any():
        return Finding(
            Verdict.NOTE,
            f"{which}: more workers of a rank than the {few} that it may use, of {there}.",
            "Launchers bind each rank to a few processors unless told otherwise.",
            "Start it with mpirun --bind-to none, or with srun --cpu-bind=none.",
        )
    return Finding(
        Verdict.NOTE,
        f"{which}: more workers than the {few} that this process may use, of {there}.",
        "A cpuset or an affinity mask keeps it from the others.",
        "Start it without taskset, or with a cpuset as large as the workers are many.",
    )


def _far_gpus(evidence: Evidence) -> Finding | None:
    """Note GPUs whose bytes pass the link between processors on their way to the disk."""
    rows = evidence.live.filter(pl.col("gpu_count") > 0)
    gpus = [gpu for gpu in evidence.run.host.gpus if gpu.to_disk]
    far = [gpu for gpu in gpus if gpu.to_disk == "another NUMA node"]
    if rows.is_empty() or not far:
        return None
    where = listing(str(gpu.pci_address) for gpu in far)
    return Finding(
        Verdict.NOTE,
        f"{where}: on another NUMA node than the disk ({len(far)} of {len(gpus)} GPUs).",
        "Their bytes pass the link between the processors, which all such GPUs share.",
        "Compare GPU sets by --gpus, nearest first; `nvidia-smi topo -m` shows what is near.",
    )
