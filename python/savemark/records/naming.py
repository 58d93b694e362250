"""What a setting is called: in a dry run, while it runs, and in every report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from savemark.units import size_text


@dataclass(frozen=True, slots=True)
class Leading:
    """A factor whose levels stand first in the name of a setting, and that is a column of all runs.

    Where a study does not vary it, a trial still has a level of it.
    """

    kind: type  # of its levels
    words: str  # its level in the name of a setting
    alone: str  # the same where it comes first
    default: Any  # of a trial that does not say
    baseline: Any  # what speeds are multiples of, if the study names nothing else


# In the order of a name: `zstd × 4`.
LEADING = {
    "codec": Leading(str, "{}", "{}", "none", "none"),
    "streams": Leading(int, "× {}", "streams × {}", 0, 1),
}
# Codecs that compute nothing.
PLAIN = ("none", "tar")
# Factors that are what is saved: a fast one is no reason to save something else.
GIVEN = ("part", "payload", "size", "state", "process", "items", "file_size")
# The setting of a run that varies nothing.
ONLY = "the only setting"


def setting(factors: Mapping[str, Any]) -> str:
    """How one combination of factors is called everywhere: `zstd × 4`, then what else varies."""
    words: list[str] = []
    for name, leading in LEADING.items():
        if name in factors:
            level = "none" if factors[name] is None else factors[name]
            words.append((leading.words if words else leading.alone).format(level))
    return ", ".join(part for part in (" ".join(words), variant(factors)) if part) or ONLY


def variant(factors: Mapping[str, Any]) -> str:
    """What varies besides the leading factors and the target: `payload zeros`; or ""."""
    # The target is a factor where there are several; its label is told apart from the setting.
    rest = ((n, value) for n, value in factors.items() if n not in LEADING and n != "target")
    return ", ".join(
        # A part of a study goes by its name alone.
        shown(name, value) if name == "part" else f"{name} {shown(name, value)}"
        for name, value in rest
    )


def shown(name: str, value: Any) -> str:
    """The level of a factor as people write it: `transfer_size` 65536 is `64KiB`."""
    if isinstance(value, list | tuple):
        return "|".join(shown(name, each) for each in value)  # several levels of a rule
    text = str(value)
    # Not each text of digits is a number: "²" is one, and ten thousand nines are too long.
    digits = text.isascii() and text.isdigit() and len(text) < 20
    if not (name.endswith(("size", "bytes")) and digits and int(text)):
        return text
    return size_text(int(text))


def given(factors: Mapping[str, Any]) -> str:
    """The part of the variant that is what is saved, in words: `payload zeros`."""
    return variant({name: value for name, value in factors.items() if name in GIVEN})
