"""What a setting is called: in a dry run, while it runs, and in every report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from savemark.units import size_text

# Factors that are what is saved: a fast one is no reason to save something else.
GIVEN = ("part", "payload", "size", "state", "process", "items", "file_size")
# The setting of a run that varies nothing.
ONLY = "the only setting"


def setting(factors: Mapping[str, Any]) -> str:
    """How one combination of factors is called everywhere: `zstd × 4`, then what else varies."""
    words = []
    if "codec" in factors:
        words.append("none" if factors["codec"] is None else str(factors["codec"]))
    if "streams" in factors:
        words.append(f"× {factors['streams']}")
    text = " ".join(words)
    if text.startswith("×"):
        text = f"streams {text}"
    return ", ".join(part for part in (text, variant(factors)) if part) or ONLY


def variant(factors: Mapping[str, Any]) -> str:
    """What varies besides codec, streams and target: `payload zeros`; "" where nothing does."""
    # The target is a factor where there are several; its label is told apart from the setting.
    named = ("codec", "streams", "target")
    rest = ((name, value) for name, value in factors.items() if name not in named)
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
