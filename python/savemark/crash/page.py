"""The findings as a table: Markdown, and lines for a terminal."""

from __future__ import annotations

from collections import Counter

from savemark.crash.findings import OUTCOMES, Finding
from savemark.crash.jobs import FILESYSTEMS, Plan

ABOUT = """\
Every row is a way to save: the twelve policies of the solver (workload `iterate`), and `savemark
save` itself with the calls of two storages. Each was put through two kinds of crash.

* **Power loss.** The program saves on a fresh filesystem whose device writes down every write and
  every flush that reaches it. Then the device is made anew as a failure would have left it: all
  that was flushed, and of what was not, nothing, everything or a random part, torn between blocks
  of 4096 bytes. It is mounted, so that the filesystem recovers, and the checkpoint is restored and
  compared byte for byte. Half of the recordings are disturbed by syncs of somebody else.
* **Kill.** The process gets SIGKILL at a random moment.

*current*: whole, and no older than the last save that had returned. *old*: whole, but older.
*torn*: a mixture that a restart takes for a state. *lost*: nothing that can be read. The contract
counts: between two saves a durable policy must be current, within a save one that overwrites in
place may be torn, and what promises nothing may be anything.
"""


def markdown(plan: Plan, found: list[Finding], machine: str, command: str) -> str:
    """The whole page."""
    total = sum(sum(f.points.values()) for f in found)
    kills = sum(f.kills for f in found)
    lines = ["# What a crash leaves of a checkpoint", "", ABOUT]
    lines += [f"Made by `{command}` on {machine}: {total} power losses, {kills} kills.", ""]
    if plan.lag:
        lines += [
            f"**The disk lied**: up to {plan.lag} writes behind a flush that it confirmed.",
            "",
        ]
    lines += ["| policy | observed | contract | power losses | torn on | kills |"]
    lines += ["|---|---|---|---|---|---|"]
    for f in found:
        points = " + ".join(f"{f.points[n]} {n}" for n in FILESYSTEMS if n in f.points)
        torn = ", ".join(f"{n} {f.torn_on[n]}" for n in FILESYSTEMS if f.torn_on[n]) or "–"
        row = (f"`{f.subject}`", f"**{f.verdict}**", f.note, points or "–", torn, str(f.kills))
        lines.append(f"| {' | '.join(row)} |")
    heads = [f"{name} {o}" for name in ("rest", "save", "kill") for o in OUTCOMES]
    lines += [
        "",
        "How often what was found: between two saves (rest) and in the middle of one (save),",
    ]
    lines += ["after a power loss; and after a kill.", ""]
    lines += ["| policy | " + " | ".join(heads) + " |", "|---|" + "--:|" * len(heads)]
    for f in found:
        counts = [c[o] for c in (f.at_rest, f.in_save, f.killed) for o in OUTCOMES]
        lines.append(f"| `{f.subject}` | {' | '.join(map(str, counts))} |")
    lines += ["", "What each promises:", ""]
    lines += [f"* `{f.subject}`: {f.contract}." for f in found]
    if examples := [f"* `{f.subject}`: {text}" for f in found for text in f.examples]:
        lines += ["", "Broken contracts, the first of each job:", "", *examples]
    return "\n".join(lines) + "\n"


def lines(found: list[Finding]) -> list[str]:
    """One line per subject."""
    rows = [("policy", "observed", "contract", "crashes", "current/old/torn/lost")]
    for f in found:
        seen: Counter[str] = f.at_rest + f.in_save + f.killed
        counts = "/".join(str(seen[outcome]) for outcome in OUTCOMES)
        crashes = f"{sum(f.points.values())} + {f.kills} kills"
        rows.append((f.subject, f.verdict, f.note, crashes, counts))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(t.ljust(w) for t, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
