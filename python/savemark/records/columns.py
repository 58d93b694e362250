"""Columns of a table that hold fields of a part of a record, of the types that those have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import polars as pl
from msgspec import structs

from savemark.records.fields import Part

Row = dict[str, Any]  # columns and their values
KINDS = {int: pl.Int64, float: pl.Float64, str: pl.String, bool: pl.Boolean}


@dataclass(frozen=True, slots=True)
class Columns:
    """Some fields of a part, and the columns that they go into."""

    kinds: dict[str, Any]  # the type of each column
    _values: Callable[[Part], tuple[Any, ...]]

    @classmethod
    def of(cls, part: type[Part], *fields: str, prefix: str = "") -> Columns:
        """The columns of these fields, of all where none is named; at least two."""
        types = {field.name: field.type for field in structs.fields(part)}
        fields = fields or part.__struct_fields__
        kinds = {f"{prefix}{name}": _kind(types[name]) for name in fields}
        return cls(kinds, attrgetter(*fields))

    def row(self, part: Part) -> Row:
        """The values of a part."""
        return dict(zip(self.kinds, self._values(part), strict=True))


def _kind(type_: Any) -> Any:
    """The type of a column for a field that may be None."""
    options = get_args(type_) if get_origin(type_) in (Union, UnionType) else (type_,)
    plain = (get_args(each)[0] if get_origin(each) is Annotated else each for each in options)
    return next(KINDS[each] for each in plain if each in KINDS)
