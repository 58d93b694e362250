"""The engine's options that a save or a restore takes, in Python and on the command line.

The engine defines what they mean; their names stand here once, with the types a Python program
gives. Sizes and times are numbers (bytes, seconds) or text: `16MiB`, `64MB`, `2m`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

from savemark.places.bucket import RequestLimits

Function = TypeVar("Function", bound=Callable[..., Any])


class RestoreOptions(RequestLimits, total=False):
    """How to read."""

    queue_depth: int
    storage: str
    direct: bool
    in_place: bool
    staging: int | str
    client_threads: int


class SaveOptions(RequestLimits, total=False):
    """How to write."""

    codec: str
    level: int
    streams: int
    chunk_size: int | str
    queue_depth: int
    storage: str
    direct: bool
    staging: int | str
    part_size: int | str
    concurrency: int
    client_threads: int


# They are about a state in memory; files have none.
OF_A_STATE = ("in_place", "staging")


def names(options: type, *, of_files: bool = True) -> tuple[str, ...]:
    """Return the names of options, those of requests last; `of_files`: only what files have."""
    every = options.__annotations__
    last = [name for name in every if name in RequestLimits.__annotations__]
    wanted = [*(name for name in every if name not in last), *last]
    return tuple(name for name in wanted if not (of_files and name in OF_A_STATE))


def spelt_out(options: type) -> Callable[[Function], Function]:
    """Return a decorator: the signature shows each of the options in the place of `**options`.

    Type checkers read that from `Unpack`; `help`, notebooks and editors look at the signature.
    """

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        *before, _ = signature.parameters.values()
        kinds = get_type_hints(options)
        more = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kinds[name] | None
            )
            for name in names(options, of_files=False)
        ]
        function.__signature__ = signature.replace(parameters=[*before, *more])  # type: ignore[attr-defined]
        return function

    return decorate
