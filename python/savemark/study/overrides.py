"""Flags and environment variables over a study: they win over its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from savemark.errors import usage
from savemark.study.keys import AUTO, Keys
from savemark.study.model import Study

# `--state process`: a running program instead of a state in memory, or of files.
PROCESS = "process"


def override(study: Study, flags: Mapping[str, str], keys: Keys) -> Study:
    """Return the study with `flags` (key -> text as typed) applied.

    A factor gets the listed levels, and a list makes any other key a factor. One value sets the
    trial's key, and is the default of every ceiling that knows the key and does not set it.
    """
    trial, defaults, factors = dict(study.trial), dict(study.defaults), dict(study.factors)
    for name, text in flags.items():
        if (name, text) == ("state", PROCESS):
            trial["workload"] = "process"
            continue
        key = keys.key(name)
        values = [key.read_text(part.strip()) for part in text.split(",")]
        if len({repr(value) for value in values}) < len(values):
            raise usage(f"{key.flag} {text}: a level is listed twice")
        if name == "state":
            values = [_directory(value) for value in values]
        if name in factors or len(values) > 1:
            if AUTO in values:
                raise usage(f"{key.flag} {text}: `auto` cannot be one level of several")
            factors[name] = values
        else:
            trial[name] = defaults[name] = values[0]
    exclude = [rule for rule in study.exclude if _still_possible(rule, factors)]
    changed = replace(study, trial=trial, defaults=defaults, factors=factors, exclude=exclude)
    return changed.with_size(max(factors["size"])) if "size" in factors else changed


def _still_possible(rule: Mapping[str, object], factors: Mapping[str, list[object]]) -> bool:
    return all(name in factors for name in rule)


def _directory(value: object) -> object:
    """Return a state directory as an absolute path: a run may be resumed from elsewhere."""
    path = Path(str(value))
    if value is not None and not path.is_dir():
        raise usage(f"--state {value}: no such directory", "name a directory whose files to save")
    return None if value is None else str(path.resolve())
