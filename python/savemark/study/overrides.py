"""Flags and environment variables over a study: they win over its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from savemark.errors import usage
from savemark.gpus import is_on_gpus
from savemark.study.keys import AUTO, TOOL, Keys
from savemark.study.model import Study

# `--state process`: a running program instead of a state in memory, or of files.
PROCESS = "process"


def override(study: Study, flags: Mapping[str, str], keys: Keys) -> Study:
    """Return the study with `flags` (key -> text as typed) applied.

    A factor gets the listed levels, and a list makes any other key a factor. One value sets the
    trial's key, and is the default of every ceiling that knows the key and does not set it. Of a
    study in parts each part takes the flags that its workload knows.
    """
    if study.parts:
        return _each_part(study, flags, keys)
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
            trial[name] = values[0]
            # Ceilings are this program's own, and in the host's memory.
            if name != TOOL and not is_on_gpus(values[0]):
                defaults[name] = values[0]
    exclude = [rule for rule in study.exclude if _still_possible(rule, factors)]
    changed = replace(study, trial=trial, defaults=defaults, factors=factors, exclude=exclude)
    return changed.with_size(max(factors["size"])) if "size" in factors else changed


def _each_part(study: Study, flags: Mapping[str, str], keys: Keys) -> Study:
    taken = dict.fromkeys(flags, False)
    parts: dict[str, dict[str, Any]] = {}
    defaults = dict(study.defaults)
    for name in study.parts:
        part = study.of(name)
        known = keys.accepted(part.workload, None)
        own = {flag: text for flag, text in flags.items() if flag in known or flag == "storage"}
        taken |= dict.fromkeys(own, True)
        changed = override(part, own, keys)
        defaults |= {key: changed.defaults[key] for key in own if key in changed.defaults}
        parts[name] = {"trial": changed.trial, "factors": changed.factors}
        parts[name]["exclude"] = changed.exclude
    for flag, used in taken.items():
        if not used and _of_a_ceiling(study, flag, keys):
            defaults[flag] = keys.key(flag).read_text(flags[flag])
        elif not used:
            raise usage(
                f"{keys.key(flag).flag}: no part of {study.name} has this option",
                f"its workloads: {', '.join(dict.fromkeys(s.workload for s in study.sections()))}",
            )
    return replace(study, trial={}, factors={}, exclude=[], defaults=defaults, parts=parts)


def _of_a_ceiling(study: Study, flag: str, keys: Keys) -> bool:
    return any(flag in keys.accepted(each["workload"], None) for each in study.ceilings.values())


def _still_possible(rule: Mapping[str, object], factors: Mapping[str, list[object]]) -> bool:
    return all(name in factors for name in rule)


def _directory(value: object) -> object:
    """Return a state directory as an absolute path: a run may be resumed from elsewhere."""
    if is_on_gpus(value):
        return value
    path = Path(str(value))
    if value is not None and not path.is_dir():
        raise usage(f"--state {value}: no such directory", "name a directory whose files to save")
    return None if value is None else str(path.resolve())
