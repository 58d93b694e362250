"""The kinds of values that stored types are made of, with the bounds of what is read."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from savemark import limits

MOST = 2**63 - 1  # a column holds no more
Amount = Annotated[int, Meta(ge=0, le=MOST)]
Number = Annotated[float, Meta(ge=0, lt=float(2**63))]
Text = Annotated[str, Meta(max_length=limits.LONGEST_MESSAGE)]
Label = Annotated[str, Meta(max_length=limits.LONGEST_TEXT)]
_Whole = Annotated[int, Meta(ge=-MOST, le=MOST)]
_Real = Annotated[float, Meta(gt=-float(2**63), lt=float(2**63))]
# A level of a factor, and the factors of a setting.
Level = bool | _Whole | _Real | Label | None
Factors = dict[Label, Level]
# An option of a trial. Which there are is the engine's to say: `savemark schema`.
Option = (
    bool
    | _Whole
    | _Real
    | Text
    | None
    | Annotated[list[bool | _Whole | _Real | Text], Meta(max_length=limits.MOST_ITEMS)]
)
Options = dict[str, Option]
Amounts = Annotated[list[Amount], Meta(max_length=limits.MOST_ITEMS)]
Texts = Annotated[list[Text], Meta(max_length=limits.MOST_ITEMS)]


class Part(Struct, kw_only=True, omit_defaults=True, gc=False):
    """A part of what is stored. No part holds itself, so none needs the cyclic collector."""
