"""Whether the phases lasted long enough to mean something."""

from __future__ import annotations

from typing import Any

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import count

# The catalogue says 10 s (IO500: 300 s). `quick` is shorter by design, which is said once.
LONG_ENOUGH_S = 10
VERY_SHORT_S = 1
# The state, the room to restore it into, and the rest of the machine.
MEMORY_SHARE = 3


@check("HC-13", "Long enough")
def long_enough(evidence: Evidence) -> Finding:
    """Flag, in one sentence, phases whose median is below ten seconds."""
    medians = [
        (phase.seconds.median, phase.user_bytes, f"{phase.name} of {cell.setting}")
        for result in evidence.results
        for cell in result.cells
        for phase in cell.phases.values()
    ]
    if not medians:
        return Finding(Verdict.UNVERIFIED, "No phase finished.")
    short = [each for each in medians if each[0] < LONG_ENOUGH_S]
    if not short:
        return Finding(Verdict.OK, f"Each of {count(len(medians), 'median')} is 10 s or longer.")
    seconds, size, name = min(short)
    very = sum(each[0] < VERY_SHORT_S for each in short)
    below = f"{len(short)} of {len(medians)} median phases are shorter than 10 s"
    below += f", {very} shorter than 1 s" if very else ""
    return Finding(
        Verdict.FLAG,
        f"{below} (shortest: {name}, {seconds:.2f} s).",
        "A burst credit, a drive's fast cache or a start-up cost weighs more than it would in a "
        "long save.",
        _fix(size, seconds, evidence.run.host),
    )


def _fix(size: int, seconds: float, host: dict[str, Any]) -> str:
    """A size that lasts long enough, or the largest that memory holds: the state is there twice."""
    if not size:
        return (
            "For a number to quote, measure again with a larger state (its size is not recorded)."
        )
    wanted = size * LONG_ENOUGH_S / seconds
    memory = (host.get("memory") or {}).get("available_bytes")
    most = memory / MEMORY_SHARE if memory else wanted
    gib = max(1, round(min(wanted, most) / 2**30))
    lasts = gib * 2**30 * seconds / size
    why = "" if most >= wanted else "; more does not fit into memory"
    return f"For a number to quote, use --size {gib}GiB (about {lasts:.0f} s at this speed{why})."
