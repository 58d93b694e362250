"""Factors out of file names, by a pattern such as `{workload}_S{segments}_{nodes}N`."""

from __future__ import annotations

import dataclasses
import re
from pathlib import PurePath

from msgspec.structs import replace

from savemark.errors import usage
from savemark.records.fields import Factors, Level
from savemark.records.imported import Reading
from savemark.records.record import Trial
from savemark.tools._numbers import binary_size

# A part of a pattern: a factor, anything within one name, or the text itself.
TOKEN = re.compile(r"\{([a-z][a-z0-9_]{0,40})\}|(\*)|([^{}*]+)")
# This one says where it ran: it is the label and no factor.
TARGET = "target"


class Pattern:
    """A pattern for the last parts of a path; folders in it are parted by `/`."""

    def __init__(self, text: str) -> None:
        tokens = list(TOKEN.finditer(text))
        self.names = [token[1] for token in tokens if token[1]]
        if "".join(token[0] for token in tokens) != text or not self.names:
            raise usage(
                f"--factors {text}: not a pattern",
                "name the parts in braces: '{workload}_S{segments}_{nodes}N'; * is anything",
            )
        twice = {name for name in self.names if self.names.count(name) > 1}
        if twice:
            raise usage(
                f"--factors {text}: {{{min(twice)}}} is there twice", "use * for one of them"
            )
        parts = (
            f"(?P<{token[1]}>[^/]+?)" if token[1] else "[^/]*?" if token[2] else re.escape(token[3])
            for token in tokens
        )
        # It begins with a name, and ends with one or before its extension.
        end = "" if text.endswith("*") else r"(?=\.[A-Za-z0-9]{1,6}$|/|$)"
        self.text, self.expression = text, re.compile(f"(?:^|/){''.join(parts)}{end}")

    def read(self, path: PurePath) -> Factors | None:
        """Return the factors that a path states; None where it does not fit the pattern."""
        match = self.expression.search(path.as_posix())
        if match is None:
            return None
        return {name: _level(name, value) for name, value in match.groupdict().items()}


def apply(reading: Reading, stated: Factors) -> Reading:
    """Return what a file says with what its name says.

    Where they disagree the file is right: its own words are of what ran. Every phase then carries
    the contradiction, for HC-22.
    """
    imported = reading.found
    label = str(stated[TARGET]) if TARGET in stated else imported.label
    factors = {name: level for name, level in stated.items() if name != TARGET}
    trials = [_with(trial, factors) for trial in reading.trials]
    return dataclasses.replace(
        reading, found=dataclasses.replace(imported, label=label), trials=trials
    )


def _with(trial: Trial, stated: Factors) -> Trial:
    own = trial.factors
    conflicts = [
        f"the name says {name} {level}, the file {own[name]}"
        for name, level in stated.items()
        if name in own and str(own[name]).lower() != str(level).lower()
    ]
    record = trial.record
    if conflicts and record:
        conflict = "; ".join(conflicts)
        phases = [replace(phase, label_conflict=conflict) for phase in record.phases]
        record = replace(record, phases=phases)
    return replace(trial, factors={**stated, **own}, record=record)


def _level(name: str, value: str) -> Level:
    """Return a number where it is one, and a size in bytes: `transfer_size` of `64k` is 65536."""
    if value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    size = binary_size(value) if name.endswith(("size", "bytes")) else None
    return value if size is None else size
