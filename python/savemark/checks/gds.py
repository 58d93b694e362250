"""Whether bytes that are said to go straight to a GPU did, and others did not."""

from __future__ import annotations

import polars as pl

from savemark.checks.device import RECEIVED
from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import count, keys, settings

# What the engine calls the ways of a transfer; all but the first pass the host's memory.
DIRECT, COMPATIBILITY = "gds", "cufile, compatibility mode"
# What a transfer that is not GPUDirect may have in common with one: counters of others' transfers.
STRAY = 0.10


@check(
    "HC-32",
    "GPUDirect Storage was on the path",
    rule="called GDS: Δ /proc/driver/nvidia-fs/stats less than 90 % of the bytes, and fewer than "
    "90 % of cuFile's own transfers direct; asked for as GDS, and another way taken; called "
    "compatibility mode, and more than 10 % direct",
    verdict="BLOCK",
    applies="L",
    blocked="GPUDirect Storage was not on the path",
)
def direct_to_gpu(evidence: Evidence) -> Finding:
    """Block a label that the driver's and the library's counters do not bear out."""
    rows = evidence.live.with_columns(
        path=pl.col("storage_path").fill_null(""),
        counted=pl.col("gds_bytes") / pl.col("stored_bytes"),
        direct=(pl.col("cufile_nvidia_fs") + pl.col("cufile_peer_to_peer"))
        / pl.sum_horizontal("cufile_nvidia_fs", "cufile_peer_to_peer", "cufile_posix"),
    )
    other = rows.filter((pl.col("transfer_asked") == "gpudirect") & (pl.col("path") != DIRECT))
    if not other.is_empty():
        return _mislabelled(other, "asked for as GPUDirect Storage, and another way was taken")
    claimed = rows.filter(pl.col("path").str.starts_with(DIRECT))
    host = rows.filter(pl.col("path") == COMPATIBILITY)
    stray = host.filter((pl.col("counted") > STRAY) | (pl.col("direct") > STRAY))
    if not stray.is_empty():
        return _mislabelled(stray, "called compatibility mode, and the counters saw direct bytes")
    if claimed.is_empty():
        return Finding(Verdict.OK, "Not applicable: nothing claims to use GPUDirect Storage.")
    proven = (pl.col("counted") >= RECEIVED) | (pl.col("direct") >= RECEIVED)
    short = claimed.filter(~proven.fill_null(value=False) & _counted())
    if not short.is_empty():
        return _short(short)
    if not (silent := claimed.filter(~_counted())).is_empty():
        return Finding(
            Verdict.UNVERIFIED,
            f"{count(len(silent), 'phase')}: neither nvidia-fs nor cuFile counted the bytes.",
            "",
            "Enable the driver's I/O statistics, or use cuFile 1.15 or newer, which counts.",
        )
    return Finding(Verdict.OK, f"{_meters(claimed)} counted the bytes.")


def _counted() -> pl.Expr:
    """Tell whether anybody has counted."""
    return pl.col("counted").is_not_null() | pl.col("direct").is_not_null()


def _meters(rows: pl.DataFrame) -> str:
    names = {"counted": "the driver nvidia-fs", "direct": "cuFile"}
    known = [name for column, name in names.items() if rows[column].null_count() < len(rows)]
    return " and ".join(known).capitalize().replace("Cufile", "cuFile").replace("cufile", "cuFile")


def _short(rows: pl.DataFrame) -> Finding:
    found = keys(rows)
    return Finding(
        Verdict.BLOCK,
        f"{settings(found)}: {_meters(rows)} saw less than 90 % of it go straight to the GPU.",
        "cuFile ran in compatibility mode: through the CPU's memory.",
        "See cufile.log; use a filesystem that GPUDirect Storage supports, or drop the label.",
        found,
    )


def _mislabelled(rows: pl.DataFrame, what: str) -> Finding:
    found = keys(rows)
    return Finding(
        Verdict.BLOCK,
        f"{settings(found)}: {what}.",
        "The label of the line is not what moved the bytes.",
        "Compare it under the name of the path in its record, or run it again alone.",
        found,
    )
