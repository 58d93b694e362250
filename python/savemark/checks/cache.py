"""Whether reads came from the storage and not from memory."""

from __future__ import annotations

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import count, keys, listing, percent, settings
from savemark.records.evidence import READS
from savemark.stats import Key

COLD = 0.01
# The client's memory, and as much again: the page cache takes what it can get (catalogue, HC-04).
MEMORY = 2
# They pass calls on and only look: profilers and sanitizers.
OBSERVERS = ("darshan", "recorder", "asan", "tsan", "ubsan")


def _reads(rows: pl.DataFrame) -> pl.DataFrame:
    """Reads that claim to come from the storage: warm ones say what they are."""
    wanted = pl.col("cache_wanted").fill_null("cold") != "warm"
    return rows.filter(pl.col("phase").is_in(READS) & wanted)


@check(
    "HC-04",
    "What was read does not fit into memory",
    rule="buffered read of less than 2 × the client's memory, its pages not shown to be dropped",
    verdict="FLAG; BLOCK above a ceiling",
    doubt="reads may have come from memory",
    blocked="reads may have come from memory",
)
def fits(evidence: Evidence) -> Finding:
    """Find buffered reads that memory could have served whole."""
    rows = _reads(evidence.trials)
    if rows.is_empty():
        return Finding(Verdict.OK, "Not applicable: nothing claims a cold read.")
    state = pl.col("cache_state").fill_null("unknown")
    shown = pl.col("direct").fill_null(value=False) | state.is_in(["cold", "none", "warm", "mixed"])
    # What another client has written is in no memory here.
    shown |= pl.col("shifted").fill_null(value=False)
    open_ = rows.filter(~shown)
    if open_.is_empty():
        return Finding(Verdict.OK, "Direct, or with the residency in the page cache counted.")
    small = pl.col("dataset_bytes") < MEMORY * pl.col("client_memory_bytes")
    fitting = open_.filter(small.fill_null(value=False))
    if fitting.is_empty():
        known = open_.filter(small.is_not_null())
        if len(known) == len(open_):
            return Finding(Verdict.OK, "What was read is larger than twice the client's memory.")
        return Finding(
            Verdict.UNVERIFIED,
            f"{count(len(open_) - len(known), 'read')}: neither direct I/O, nor a dropped cache, "
            "nor the size of data and memory is recorded.",
        )
    return _fitting(evidence, fitting)


def _fitting(evidence: Evidence, rows: pl.DataFrame) -> Finding:
    found = keys(rows)
    above = {
        (cell.label, cell.setting, phase.name)
        for result in evidence.results
        for cell in result.cells
        for phase in cell.phases.values()
        if phase.limit and phase.limit.firm and (phase.of_limit or 0) > 1
    }
    blocked = tuple(key for key in found if key in above)
    return Finding(
        Verdict.BLOCK if blocked else Verdict.FLAG,
        f"{settings(found)}: the data read is smaller than twice the client's memory, and neither "
        "direct I/O nor a dropped cache is shown"
        + (" and the rate is above the storage's ceiling." if blocked else "."),
        "The page cache may have served the reads.",
        "Read with direct I/O, from another node than the writer, or at least twice the memory.",
        blocked,
    )


@check(
    "HC-05",
    "Restores started cold",
    rule="cachestat(2) or mincore: more than 1 % of the pages resident after the drop",
    verdict="BLOCK",
    applies="L",
    blocked="restores were not cold",
)
def cold(evidence: Evidence) -> Finding:
    """Block reads that were asked to be cold and found more than 1 % of their pages resident."""
    rows = _reads(evidence.live)
    if rows.is_empty():
        return Finding(Verdict.OK, "No phase of this run was to read from a cold cache.")
    share = pl.col("cache_resident_pages") / pl.col("cache_total_pages")
    counted = rows.filter((pl.col("cache_total_pages") > 0) & (pl.col("cache_state") != "unknown"))
    warm = counted.with_columns(share=share).filter(
        (pl.col("share") > COLD) | pl.col("cache_state").is_in(["warm", "mixed"])
    )
    if not warm.is_empty():
        return _warm(warm, len(rows))
    none = rows.filter(pl.col("cache_state") == "none")
    unknown = (
        len(rows) - len(counted) - len(none.filter(pl.col("cache_total_pages").fill_null(0) == 0))
    )
    if unknown > 0:
        return Finding(
            Verdict.UNVERIFIED,
            f"For {unknown} of {count(len(rows), 'restore')} the residency in the page cache is "
            "not known, so they may have been served from memory.",
        )
    methods = ", ".join(sorted(set(rows["cache_method"].drop_nulls()) - {""})) or "no page cache"
    return Finding(
        Verdict.OK,
        f"At most 1 % of the pages resident before {count(len(rows), 'restore')} ({methods}).",
    )


def _warm(warm: pl.DataFrame, total: int) -> Finding:
    worst = warm.sort("share", descending=True, nulls_last=True).row(0, named=True)
    found = keys(warm)
    share = "all" if worst["share"] is None else percent(worst["share"])
    return Finding(
        Verdict.BLOCK,
        f"{settings(found)}: {len(warm)} of {count(total, 'restore')} read data that was in memory "
        f"(up to {share} of the pages, by {worst['cache_method'] or 'the kernel'}).",
        "The page cache was not dropped, or this filesystem keeps its data in memory.",
        "Use direct I/O, run where the cache can be dropped, or ask for cache: warm and say so.",
        found,
    )


@check(
    "HC-06",
    "Not from the server's cache",
    rule="the same data read again in less than half the time of its first read",
    verdict="FLAG",
    doubt="reads may have come from the server's cache",
)
def server_cache(evidence: Evidence) -> Finding:
    """Compare each later repeat with the first: a server that remembers makes only the first pay.

    savemark writes new data for each trial, so nothing is ever read twice there; but where a study
    keeps its file, all trials of a target read the same one.
    """
    kept = _reads(evidence.live).filter(pl.col("kept").fill_null(value=False))
    rows = pl.concat([_reads(evidence.imported), kept])
    if rows.is_empty():
        return Finding(Verdict.OK, "Not applicable: each trial reads what it has just written.")
    slow = []
    groups = rows.sort("repeat").group_by("label", "setting", "phase", maintain_order=True)
    for (label, setting, phase), group in groups:
        times = group["elapsed_ns"].drop_nulls().to_list()
        later = sorted(times[1:])
        if len(later) >= 2 and times[0] > 2 * later[len(later) // 2]:
            slow.append(Key(str(label), str(setting), str(phase)))
    if not slow and not kept.is_empty():
        return _one_file(kept)
    if not slow:
        return Finding(Verdict.UNVERIFIED, "Whether a server's cache answered is not in the files.")
    return Finding(
        Verdict.FLAG,
        f"{settings(slow)}: the first read took more than twice as long as the later ones.",
        "The later ones came from a cache of the server's.",
        "Quote the first read, or read a data set larger than the server's memory.",
    )


def _one_file(kept: pl.DataFrame) -> Finding:
    """Trials share a file: no cache of this machine's answers direct I/O, but a server's may."""
    many = count(len(kept), "trial")
    size = max(kept["dataset_bytes"].fill_null(0).to_list())
    served = kept["filesystem_class"].fill_null("unknown").is_in(["disk"])
    shared = f"{many} read the same file of {size} bytes, laid out once"
    if served.all():
        return Finding(Verdict.OK, f"{shared}, on a disk of this machine.")
    return Finding(
        Verdict.FLAG,
        f"{shared}, and a server is between.",
        "After the first trial it can answer from its memory, however cold this machine is.",
        "Choose a --size above the server's memory, or lay the file out each time (--no-keep).",
    )


@check(
    "HC-07",
    "Nothing stands between savemark and the kernel",
    rule="the dynamic linker resolves fsync, posix_fadvise, … to another library than libc; FUSE",
    verdict="BLOCK; FLAG for FUSE, profilers and tracers",
    applies="L",
    doubt="another program stood between savemark and the kernel",
    blocked="another library answered the calls",
)
def interposed(evidence: Evidence) -> Finding:
    """Block what was measured while another library answered the calls that matter."""
    rows = evidence.live
    known = rows.filter(pl.col("interposed").is_not_null())
    caught = known.filter(pl.col("interposed") != "")
    watched = pl.col("interposed").str.contains("|".join(OBSERVERS))
    cheats = caught.filter(~watched)
    if not cheats.is_empty():
        return _interposed(cheats, Verdict.BLOCK, "It may have made them do nothing.")
    if not caught.is_empty():
        return _interposed(caught, Verdict.FLAG, "It passes calls on, but takes its time.")
    if not rows.filter(pl.col("traced").fill_null(value=False)).is_empty():
        return Finding(
            Verdict.FLAG,
            "A debugger or strace was attached to savemark.",
            "It stops the process at every call.",
            "Run it again without the tracer.",
        )
    # Found behind the mount, or read through one that is new: its cache is no matter.
    seen = pl.col("past_mount").fill_null(value=False)
    fuse = rows.filter((pl.col("filesystem_class") == "fuse") & ~seen)
    if not fuse.is_empty():
        return Finding(
            Verdict.FLAG,
            f"{settings(keys(fuse))}: the target is a FUSE filesystem ({fuse['filesystem'][0]}).",
            "Its daemon has a cache that cannot be dropped or counted from here, and may answer "
            "fsync before anything is durable.",
            "Measure what is behind it directly, or remount it between write and read.",
        )
    if len(known) < len(rows) or rows.is_empty():
        return Finding(Verdict.UNVERIFIED, "Who answers fsync and its like was not recorded.")
    return Finding(Verdict.OK, f"The C library answered in each of {count(len(rows), 'phase')}.")


def _interposed(rows: pl.DataFrame, verdict: Verdict, cause: str) -> Finding:
    found = keys(rows)
    calls = [call for text in rows["interposed"].unique() for call in text.split(", ")]
    return Finding(
        verdict,
        f"Another library than the C library answered {listing(sorted(calls), 3)}.",
        cause,
        "Run it again without LD_PRELOAD and without that library.",
        found if verdict is Verdict.BLOCK else (),
    )
