"""Whether the bytes were like real ones: zeros and holes cost a storage next to nothing."""

from __future__ import annotations

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import count, keys, listing, percent, settings
from savemark.records.evidence import READS, WRITES
from savemark.records.naming import PLAIN

# A file's tail block and the like; anything more was never written.
ROUNDING = 0.001


@check(
    "HC-09",
    "The data is like real data",
    rule="share of zero or repeated blocks in a sample of what is written above the limit; "
    "imported: codecs compared and the data or its ratio not recorded",
    verdict="FLAG; NOTE for a state of your own",
    easy_share=0.1,
    doubt="the data is easier to compress than real data",
)
def realistic(evidence: Evidence) -> Finding:
    """Flag data that a codec, a deduplicating store or a controller makes vanish."""
    blind = _blind(evidence.imported)
    if blind is not None:
        return blind
    rows = evidence.trials.filter(
        pl.col("phase").is_in(WRITES) & (pl.col("payload_sampled_bytes") > 0)
    )
    if rows.is_empty():
        return Finding(Verdict.UNVERIFIED, "What the data looked like is not recorded.")
    easy = pl.col("payload_zero_share") + pl.col("payload_repeated_share")
    most = evidence.needed("HC-09", "easy_share")
    poor = rows.with_columns(easy=easy).filter(pl.col("easy") > most)
    if poor.is_empty():
        kinds = listing(str(kind) for kind in rows["payload_kind"].drop_nulls().unique().sort())
        least = float(rows["payload_entropy_bits"].min() or 0)  # type: ignore[arg-type]
        return Finding(
            Verdict.OK,
            f"{kinds}: at least {least:.1f} bits of entropy per byte, and at most "
            f"{percent(most)} zero or repeated blocks.",
        )
    return _easy(poor)


def _easy(rows: pl.DataFrame) -> Finding:
    row = rows.sort("easy", descending=True).row(0, named=True)
    own = bool(rows["state_given"].fill_null(value=False).all())
    what = "zeros" if row["payload_zero_share"] >= row["payload_repeated_share"] else "repetitions"
    ratio = row["user_bytes"] / row["stored_bytes"] if row["stored_bytes"] else 1.0
    seen = f"{settings(keys(rows))}: {percent(row['easy'])} of the blocks are {what}"
    fix = "Use payload: bf16 or text, or --state with a directory of your own."
    if own:
        fix = "Keep it if your states are like this; if not, give --state another directory."
    return Finding(
        Verdict.NOTE if own and row["easy"] < 0.9 else Verdict.FLAG,
        f"{seen} (user bytes / stored bytes = {ratio:.2f}).",
        "A codec, a store that deduplicates or a drive that compresses makes them vanish.",
        fix,
    )


def _blind(rows: pl.DataFrame) -> Finding | None:
    """Imported: codecs are ranked, and nobody knows on what data."""
    codecs = rows["codec"].drop_nulls().unique(maintain_order=True).to_list()
    coding = [name for name in codecs if name not in PLAIN]
    unknown = rows.filter(
        pl.col("phase").is_in(WRITES)
        & (pl.col("user_bytes").is_null() | pl.col("stored_bytes").is_null())
        & pl.col("payload_zero_share").is_null()
    )
    if len(codecs) < 2 or not coding or unknown.is_empty():
        return None
    return Finding(
        Verdict.FLAG,
        f"{listing(sorted(coding))} are compared, and neither the data nor how many bytes were "
        "stored is recorded.",
        "How a codec ranks is a property of the data: on zeros all of them look good.",
        "Record the size before and after the codec, and what the data is.",
    )


@check(
    "HC-33",
    "What was read had been written",
    rule="FIEMAP: holes or unwritten extents in the files that are read",
    verdict="BLOCK",
    applies="L",
    blocked="what was read had never been written",
)
def written(evidence: Evidence) -> Finding:
    """Block reads of files with room that was never written: they are answered from nowhere."""
    rows = evidence.live.filter(pl.col("phase").is_in(READS))
    if rows.is_empty():
        return Finding(Verdict.OK, "Not applicable: nothing was read.")
    asked = rows.filter(pl.col("extents_method").is_not_null())
    if asked.is_empty():
        filesystem = rows["filesystem"].fill_null("")
        if (filesystem == "").all() and rows["extents_method"].is_null().all():
            return Finding(Verdict.OK, "Not applicable: there is no filesystem.")
        return Finding(Verdict.UNVERIFIED, "Whether the files had holes is not recorded.")
    empty = pl.col("extents_hole_bytes") + pl.col("extents_unwritten_bytes")
    share = empty / pl.col("extents_bytes")
    mapped = asked.filter(pl.col("extents_method") == "fiemap")
    sparse = mapped.with_columns(share=share).filter(pl.col("share") > ROUNDING)
    if not sparse.is_empty():
        most = float(sparse["share"].max() or 0)  # type: ignore[arg-type]
        found = keys(sparse)
        return Finding(
            Verdict.BLOCK,
            f"{settings(found)}: up to {percent(most)} of the files that were read had never been "
            f"written (holes or unwritten extents, {count(len(sparse), 'phase')}).",
            "The filesystem makes such bytes up in memory; the device is not asked.",
            "Write the whole file before reading it, and look for what keeps writes from arriving.",
            found,
        )
    unknown = asked.filter(pl.col("extents_method") != "fiemap")
    if not unknown.is_empty():
        return Finding(
            Verdict.UNVERIFIED,
            f"This filesystem does not tell ({unknown['extents_method'][0]}).",
        )
    return Finding(
        Verdict.OK, f"FIEMAP: no hole and nothing unwritten, {count(len(asked), 'read')}."
    )
