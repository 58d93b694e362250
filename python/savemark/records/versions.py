"""The versions of what is stored, and how older ones are read.

A version is raised when a field changes its meaning; then the step from the version before it is
written here, and everything else reads the newest one alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from savemark.errors import usage

Json = dict[str, Any]
Step = Callable[[Json], Json]

RUN = 1  # of run.json
RECORD = 2  # of a record: SCHEMA_VERSION in crates/engine/src/record.rs


def as_it_is(stored: Json) -> Json:
    """Return what reads as the next version without a change."""
    return stored


# By the version that they start from: the step to the next one.
RUN_STEPS: Mapping[int, Step] = {}
RECORD_STEPS: Mapping[int, Step] = {
    # Before version 2 saves and restores had their preparation in `elapsed_ns`, as the stage
    # `open`, and in their CPU time, where it cannot be told apart: what was measured stays.
    1: as_it_is,
}


def run(stored: Json, where: str) -> Json:
    """Return `run.json` as the newest version has it; a usage error where that cannot be done."""
    return newest(stored, where, RUN, RUN_STEPS)


def record(stored: Json, where: str) -> Json:
    """Return a record as the newest version has it; a usage error where that cannot be done."""
    return newest(stored, where, RECORD, RECORD_STEPS)


def reads_as_newest(schema: Any) -> bool:
    """Whether a record of this version needs no step that changes it."""
    return (
        type(schema) is int
        and all(RECORD_STEPS.get(version) is as_it_is for version in range(schema, RECORD))
        and 1 <= schema <= RECORD
    )


def newest(stored: Json, where: str, version: int, steps: Mapping[int, Step]) -> Json:
    """Take what is stored through the steps from its version to `version`."""
    own = stored.get("schema", 1)  # nothing was ever written without it, except in tests
    if type(own) is not int or own < 1:
        raise usage(
            f"{where}: its schema is {str(own)[:40]!r}, which is no version", "it is damaged"
        )
    if own > version:
        raise usage(
            f"{where} has schema {own}, this savemark reads up to schema {version}",
            "it was written by a newer savemark: upgrade",
        )
    while own < version:
        if own not in steps:
            raise usage(
                f"{where} has schema {own}, this savemark reads schema {version}",
                "read it with the savemark that wrote it (savemark_version in run.json)",
            )
        stored, own = {**steps[own](stored), "schema": own + 1}, own + 1
    return stored
