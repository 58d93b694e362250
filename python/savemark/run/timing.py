"""What the trials of a race took, from the records of its run folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from savemark.study.race import Screened

if TYPE_CHECKING:
    from savemark.records.phase import Phase
    from savemark.records.run import Entry as Recorded

# Besides what a trial measures: files made and removed, the disk at rest again; the share grows
# with what is written.
BETWEEN_S, BESIDE = 0.4, 1.15


def screened(line: Recorded) -> Screened:
    """Return what a short trial that finished took and stored."""
    phases = _measured(line)
    stored = sum(phase.stored_bytes or 0 for phase in phases)
    user = sum(phase.user_bytes or 0 for phase in phases)
    return Screened(line.factors, measured_s(line), stored / max(user, 1))


def moved_bytes(line: Recorded) -> int:
    """Return the user bytes of one phase, at least 1."""
    return max([1, *(phase.user_bytes or 0 for phase in line.phases)])


def measured_s(line: Recorded) -> float:
    """Return the seconds of all phases that are measured."""
    return sum(max(phase.elapsed_ns or 0, 1) for phase in _measured(line)) / 1e9


def whole_s(line: Recorded) -> float:
    """Return about how many seconds a trial took, with all that is not measured."""
    record = line.record
    return BETWEEN_S + ((record and record.elapsed_ns) or 0) / 1e9


def rates(line: Recorded) -> list[float]:
    """Return the user bytes per second of each phase that is measured."""
    return [rate(phase) for phase in _measured(line)]


def rate(phase: Phase) -> float:
    """Return the user bytes per second of a phase."""
    return (phase.user_bytes or 0) / max(phase.elapsed_ns or 0, 1) * 1e9


def _measured(line: Recorded) -> list[Phase]:
    return [phase for phase in line.phases if phase.name != "prepare"]
