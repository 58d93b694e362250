"""Reads an index: every node is checked before memory is made for it, and no code of it is run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from savemark.checkpoint import arrays
from savemark.checkpoint.index import DICTS, FACTORIES, FORMAT, VERSION, Node, Where
from savemark.checkpoint.memory import bounds, strides_of
from savemark.errors import SavemarkError
from savemark.launcher import Rank


@dataclass(frozen=True)
class Value:
    """None, a bool, a number or text."""

    value: Any


@dataclass(frozen=True)
class Bytes:
    """Bytes, which cannot be changed, or a bytearray."""

    is_mutable: bool
    low: int
    high: int

    @property
    def bytes(self) -> int:
        """Their number."""
        return self.high - self.low


@dataclass(frozen=True)
class Array:
    """An array: `first` is where its first element lies in the data, strides are in bytes."""

    library: str
    dtype: str
    item: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    first: int
    is_scalar: bool
    is_parameter: bool
    requires_grad: bool

    @cached_property
    def low(self) -> int:
        """Where its lowest byte lies in the data."""
        return self.first + bounds(self.shape, self.strides, self.item)[0]

    @cached_property
    def high(self) -> int:
        """Where the data goes on after its highest byte."""
        return self.first + bounds(self.shape, self.strides, self.item)[1]

    def __str__(self) -> str:
        """Return what users know it by."""
        return f"{self.dtype} {self.shape}"


@dataclass(eq=False)
class Branch:
    """A dict, list or tuple; `items` are (key or number, node)."""

    kind: str
    items: list[tuple[Any, Any]] = field(default_factory=list)
    type: str = "dict"
    default: str | None = None
    metadata: Any = None


Tree = Value | Bytes | Array | Branch


def read(text: bytes, data_bytes: int) -> Tree:
    """Return the tree of a state with so many bytes of data."""
    try:
        head = json.loads(text)
        if head["format"] != FORMAT:
            raise ValueError(f"it is {head['format']!r}")
        version = head["version"]
        if type(version) is int and version > VERSION:
            raise SavemarkError(
                "failed",
                f"the state was saved by a newer savemark (version {version} of its index)",
                "restore it with that version",
            )
        if version not in (1, VERSION):
            raise ValueError(f"version {version!r}")
        return _Parser(data_bytes).node(head["tree"], "state")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise damaged(f"{type(error).__name__}: {error}") from None


def rank_of(text: bytes) -> Rank | None:
    """Return which rank of how many saved a state; None where it was one process, or is unknown."""
    try:
        rank, world = json.loads(text)["rank"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    return Rank(rank, world) if type(rank) is type(world) is int else None


def damaged(why: str) -> SavemarkError:
    """Build the error of an index that no savemark wrote."""
    return SavemarkError(
        "corrupt", f"the index of the state is wrong: {why}", "restore an older checkpoint"
    )


class _Parser:
    def __init__(self, data_bytes: int) -> None:
        self._data_bytes = data_bytes
        self._known: list[Branch | None] = []  # None: not read to its end
        self._items: dict[tuple[str, str], int | None] = {}

    def node(self, node: Node, where: Where | str) -> Tree:
        reads: dict[str, Callable[[Node, Where | str], Tree]] = {
            "value": self._value,
            "int": self._value,
            "float": self._value,
            "array": self._array,
            "bytes": self._bytes,
            "bytearray": self._bytes,
            "same": self._same,
        }
        return reads.get(node["kind"], self._branch)(node, where)

    def _value(self, node: Node, where: Where | str) -> Value:
        value = node["value"]
        if node["kind"] == "int":
            return Value(int(value, 16))
        if node["kind"] == "float":
            return Value(float.fromhex(value))
        if type(value) not in (type(None), bool, int, str, float):
            raise ValueError(f"{where} is no plain value")
        return Value(value)

    def _bytes(self, node: Node, where: Where | str) -> Bytes:
        low = _whole(node["offset"])
        high = low + _whole(node["bytes"])
        return Bytes(node["kind"] == "bytearray", *self._within(low, high, where))

    def _same(self, node: Node, where: Where | str) -> Branch:
        number = _whole(node["as"])
        known = self._known[number] if number < len(self._known) else None
        if known is None:
            raise ValueError(f"{where} is the same as what does not come before it")
        return known

    def _branch(self, node: Node, where: Where | str) -> Branch:
        if node["kind"] not in ("dict", "list", "tuple"):
            raise ValueError(f"{where} has the unknown kind {node['kind']!r}")
        number = len(self._known)
        self._known.append(None)
        branch = Branch(node["kind"])
        if branch.kind != "dict":
            for i, item in enumerate(node["items"]):
                branch.items.append((i, self.node(item, Where(where, i))))
        else:
            for key, item in node["items"]:
                if type(key) not in (str, int):
                    raise ValueError(f"{where} has the key {key!r}")
                branch.items.append((key, self.node(item, Where(where, key))))
            if len({key for key, _ in branch.items}) != len(branch.items):
                raise ValueError(f"{where} has a key twice")
            branch.type, branch.default = node.get("type", "dict"), node.get("default")
            if branch.type not in DICTS or branch.default not in (None, *FACTORIES):
                raise ValueError(f"{where} is of the unknown type {branch.type!r}")
            if "metadata" in node:
                branch.metadata = self.node(node["metadata"], f"{where}._metadata")
        self._known[number] = branch
        return branch

    def _array(self, node: Node, where: Where | str) -> Array:
        library, dtype = node["library"], node["dtype"]
        if library not in ("numpy", "torch") or not isinstance(dtype, str):
            raise ValueError(f"{where} is of the unknown library {library!r}")
        if (library, dtype) not in self._items:
            arrays.require(library)
            self._items[library, dtype] = arrays.item_bytes(library, dtype)
        item = self._items[library, dtype]
        if item is None:
            raise ValueError(f"{where} has the dtype {dtype!r} of {library}, not known here")
        shape = tuple(_whole(size) for size in node["shape"])
        strides = tuple(node.get("strides") or strides_of(shape, item))
        if [type(stride) for stride in strides] != [int] * len(shape) or len(shape) > 64:
            raise ValueError(f"{where} has wrong strides")
        if library == "torch" and any(stride % item or stride < 0 for stride in strides):
            raise ValueError(f"{where} has strides that are no tensor's")
        flags = [node.get(name) is True for name in ("scalar", "parameter", "requires_grad")]
        made = Array(library, dtype, item, shape, strides, _whole(node["offset"]), *flags)
        length = item
        for size in shape:
            length *= size
        if node["bytes"] != length:
            raise ValueError(f"{where} has {node['bytes']} bytes instead of {length}")
        self._within(made.low, made.high, where)
        return made

    def _within(self, low: int, high: int, where: Where | str) -> tuple[int, int]:
        if low < 0 or high > self._data_bytes:
            raise ValueError(f"{where} lies outside the data")
        return low, high


def _whole(number: Any) -> int:
    """Return a number that counts something."""
    if type(number) is not int or number < 0:
        raise ValueError(f"{number!r} is no count")
    return number
