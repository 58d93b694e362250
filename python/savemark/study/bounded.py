"""YAML that somebody else wrote, as plain mappings, lists and values: within limits or refused.

Its events are counted before anything is built of them: what nests without end, and aliases that
stand for a billion values, cost nothing.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    NodeEvent,
    ScalarEvent,
)

from savemark import limits
from savemark.errors import SavemarkError, usage

MOST = 2**63  # what the engine can hold of a whole number


def load(file: Path, text: str) -> Any:
    """Return what a YAML text says; a usage error names the line of what is wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an anchor that is there twice is no error in YAML
            _count(file, YAML().parse(text))
            root = YAML().load(text)
    except SavemarkError:
        raise
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problem = str(error.problem).split(" with value")[0]
        raise usage(f"{file}:{line}: {problem}") from None
    except Exception as error:  # its parser has no one kind of error for odd texts
        raise usage(f"{file}: not YAML: {error or type(error).__name__}") from None
    _check(file, root, 1)
    return root


def _count(file: Path, events: Iterator[Any]) -> None:
    """Refuse what is too deep, too long or too much, each alias counted as what it stands for."""
    total, sizes = 0, dict[str, int]()
    open_: list[tuple[str | None, int]] = []  # the anchor of each collection, the total before it
    for event in events:
        where = f"{file}:{event.start_mark.line + 1}"
        if isinstance(event, AliasEvent):
            if any(event.anchor == anchor for anchor, _ in open_):
                raise usage(f"{where}: `*{event.anchor}` stands in itself", "write out what it is")
            total += sizes.get(event.anchor, 1)  # one that is not there is the parser's to refuse
        elif isinstance(event, NodeEvent):
            total += 1
        if isinstance(event, CollectionStartEvent):
            open_.append((event.anchor, total - 1))
        elif isinstance(event, CollectionEndEvent):
            anchor, before = open_.pop()
            if anchor:
                sizes[anchor] = total - before
        elif isinstance(event, ScalarEvent):
            _limit(len(event.value), limits.LONGEST_SCALAR, "characters in one value", where)
        _limit(len(open_), limits.MOST_DEPTH, "levels of nesting", where)
        _limit(total, limits.MOST_NODES, "values, with its aliases", where)


def _limit(count: int, most: int, what: str, where: str) -> None:
    if count > most:
        raise usage(f"{where}: more than {most} {what}", "no study needs that many")


def _check(file: Path, node: Any, line: int) -> None:
    """Refuse keys that are no text, and values that are neither text, number, truth nor nothing."""
    if isinstance(node, CommentedMap):
        for key, value in node.items():
            at = _line(node, key)
            if not isinstance(key, str):
                raise usage(
                    f"{file}:{at}: the key `{str(key)[:40]}` is no text", "put it in quotes"
                )
            _check(file, value, at)
    elif isinstance(node, CommentedSeq):
        for place, value in enumerate(node):
            _check(file, value, _line(node, place))
    elif isinstance(node, float) and not math.isfinite(node):
        raise usage(f"{file}:{line}: {node} is no number that can be set")
    elif isinstance(node, int) and abs(node) >= MOST:
        raise usage(f"{file}:{line}: a number that is too large")
    elif not isinstance(node, str | int | float | None):
        kind = type(node).__name__.lower()
        raise usage(
            f"{file}:{line}: a {kind}, where text or a number is wanted", "put it in quotes"
        )


def _line(node: CommentedMap | CommentedSeq, key: Any) -> int:
    try:
        return int(node.lc.data[key][0]) + 1
    except (KeyError, TypeError):  # it came with `<<`, or has a tag
        return int(node.lc.line) + 1
