"""The index of a saved state: its tree, dtypes, shapes and small values, as JSON.

Whatever comes back is what was saved, or was refused by its name: no type is replaced by another.
Arrays that share memory, all of it or a part, are laid as one range of the data and share it again.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from savemark.checkpoint import arrays, tensors
from savemark.checkpoint.layout import Layout, address_of
from savemark.checkpoint.memory import Memory, clusters, padding, same_strides, strides_of
from savemark.errors import SavemarkError, usage
from savemark.launcher import Rank

FORMAT, VERSION = "savemark-state", 2
# Dicts, lists and tuples within each other, at most.
MAX_DEPTH = 100
# Arrays with gaps whose memory overlaps, at most: each pair is looked at. More keep their gaps.
MOST_COMPARED = 200
# A larger int is written in hexadecimal: Python limits the digits of decimal ones, and JSON's
# other readers know 64 bits.
PLAIN_INTS = range(-(2**63), 2**63)
Node = dict[str, Any]

# Subclasses of dict that come back as themselves; of those that call something for a missing key,
# what they may call.
DICTS: dict[str, type[dict[Any, Any]]] = {
    "dict": dict,
    "OrderedDict": OrderedDict,
    "Counter": Counter,
    "defaultdict": defaultdict,
}
FACTORIES: dict[str, Callable[[], Any]] = {
    kind.__name__: kind for kind in (dict, list, tuple, int, float, bool, str, bytes)
}
# What to save instead of a value that would come back as another type.
INSTEAD = (
    (Enum, "its value: x.value"),
    (str, "str(x)"),
    (int, "int(x)"),
    (float, "float(x)"),
    (complex, "numpy.complex128(x)"),
    (bytes | bytearray, "bytes(x)"),
    (Mapping, "dict(x)"),
    (list | set | frozenset, "list(x)"),
    (tuple, "tuple(x), or of a named one x._asdict()"),
)


class Where:
    """The name of an entry, `state['model'][0]`, made when somebody reads it."""

    __slots__ = ("_above", "_key")

    def __init__(self, above: Where | str, key: object) -> None:
        self._above, self._key = above, key

    def __str__(self) -> str:
        """Return the name."""
        above: Where | str = self
        keys = []
        while isinstance(above, Where):
            keys.append(f"[{above._key!r}]")
            above = above._above
        return above + "".join(reversed(keys))


@dataclass(frozen=True)
class _Array:
    """An array that is saved, and its node, which is not finished yet."""

    node: Node
    value: Any
    where: Where | str
    memory: Memory

    @property
    def low(self) -> int:
        return self.memory.low

    @property
    def high(self) -> int:
        return self.memory.high


def write(state: object, rank: Rank | None = None) -> tuple[bytes, Layout]:
    """Return the index of a state, and its buffers laid out; `rank` is that which saves it."""
    writer = _Writer()
    head: Node = {"format": FORMAT, "version": VERSION}
    if rank is not None:
        head["rank"] = list(rank)
    head["tree"] = writer.node(state, "state", 0)
    writer.lay()
    return json.dumps(head, separators=(",", ":"), allow_nan=False).encode(), writer.layout


class _Writer:
    """Turns a state into nodes, then lays its arrays."""

    def __init__(self) -> None:
        self.layout = Layout()
        self._arrays: list[_Array] = []
        # Containers by identity: their number, in the order in which they are met.
        self._known: dict[int, int] = {}
        self._open: set[int] = set()

    def node(self, value: Any, where: Where | str, depth: int) -> Node:
        kind = type(value)
        if value is None or kind in (bool, str) or (kind is int and value in PLAIN_INTS):
            return {"kind": "value", "value": value}
        if kind is int:
            return {"kind": "int", "value": hex(value)}
        if kind is float:
            return {"kind": "float", "value": value.hex()}  # JSON has no infinity and no NaN
        library = arrays.library_of(value)
        if library is not None:
            return self._array(value, library, where)
        if kind in (bytes, bytearray, memoryview):
            return self._bytes(value, where)
        if kind in (list, tuple) or DICTS.get(kind.__name__) is kind:
            return self._container(value, where, depth)
        raise _unknown(value, where)

    def _container(self, value: Any, where: Where | str, depth: int) -> Node:
        known = self._known.get(id(value))
        if id(value) in self._open:
            raise usage(f"{where} holds itself", "save a state whose parts form a tree")
        if known is not None:
            return {"kind": "same", "as": known}
        if depth >= MAX_DEPTH:
            raise usage(
                f"the state has more than {MAX_DEPTH} dicts, lists and tuples within each other: "
                f"{str(where)[:200]}",
                "save the inner ones as entries of their own",
            )
        self._known[id(value)] = len(self._known)
        self._open.add(id(value))
        if isinstance(value, dict):
            node = self._dict(value, where, depth + 1)
        else:
            name = "list" if isinstance(value, list) else "tuple"
            nodes = [self.node(x, Where(where, i), depth + 1) for i, x in enumerate(value)]
            node = {"kind": name, "items": nodes}
        self._open.remove(id(value))
        return node

    def _dict(self, value: dict[Any, Any], where: Where | str, depth: int) -> Node:
        items = []
        for key, item in value.items():
            if type(key) not in (str, int) or (type(key) is int and key not in PLAIN_INTS):
                raise usage(f"{where} has the key {key!r}", "keys are text or whole numbers")
            items.append([key, self.node(item, Where(where, key), depth)])
        node: Node = {"kind": "dict", "items": items}
        if type(value) is not dict:
            node["type"] = type(value).__name__
        if isinstance(value, defaultdict) and value.default_factory is not None:
            name = getattr(value.default_factory, "__name__", "")
            if FACTORIES.get(name) is not value.default_factory:
                raise usage(
                    f"{where} is a defaultdict that calls {value.default_factory!r}",
                    "save dict(x); of list, dict, int and the like a defaultdict comes back",
                )
            node["default"] = name
        # Modules of torch keep the versions of their parts there.
        attributes = dict(getattr(value, "__dict__", {}))
        if "_metadata" in attributes:
            node["metadata"] = self.node(attributes.pop("_metadata"), f"{where}._metadata", depth)
        if attributes:
            names = ", ".join(attributes)
            raise usage(f"{where} has attributes of its own: {names}", "save dict(x)")
        return node

    def _bytes(self, value: bytes | bytearray | memoryview, where: Where | str) -> Node:
        view = memoryview(value)
        if not view.c_contiguous:
            raise usage(f"{where} is a memoryview with gaps", "save bytes(view)")
        flat = view.cast("B") if view.nbytes else memoryview(b"")
        if not isinstance(value, bytearray):
            return {"kind": "bytes", "offset": self.layout.add_buffer(flat), "bytes": view.nbytes}
        node: Node = {"kind": "bytearray", "offset": 0, "bytes": view.nbytes}
        place = Memory(None, address_of(value), (view.nbytes,), (1,), 1, value)
        self._arrays.append(_Array(node, value, where, place))
        return node

    def _array(self, value: Any, library: str, where: Where | str) -> Node:
        arrays.check(value, where)
        dtype = arrays.dtype_name(value, where)
        memory = naming_entry(lambda: arrays.memory_of(value, where), where)
        node: Node = {"kind": "array", "library": library, "dtype": dtype}
        node |= {"shape": list(memory.shape), "offset": 0, "bytes": nbytes(memory)}
        if arrays.is_scalar(value):
            node["scalar"] = True
        if tensors.is_tensor(value):
            node |= {"parameter": True} if tensors.is_parameter(value) else {}
            node |= {"requires_grad": True} if value.requires_grad else {}
        self._arrays.append(_Array(node, value, where, memory))
        return node

    def lay(self) -> None:
        """Give every array its place in the data, in the order in which they were met."""
        number = {id(one): i for i, one in enumerate(self._arrays)}
        gpus = {one.memory.gpu for one in self._arrays}
        groups = [
            sorted(group, key=lambda one: number[id(one)])
            for gpu in gpus
            for near in clusters(one for one in self._arrays if one.memory.gpu == gpu)
            for group in _sharing(near)
        ]
        for group in sorted(groups, key=lambda group: number[id(group[0])]):
            self._lay(group)

    def _lay(self, group: list[_Array]) -> None:
        first = group[0]
        lazy = [tensors.is_tensor(one.value) and tensors.is_lazy(one.value) for one in group]
        if all(x is first or x.memory.is_same(first.memory) for x in group) and len(set(lazy)) == 1:
            if lazy[0] or not first.memory.is_dense:
                copy = naming_entry(lambda: arrays.packed(first.value), first.where)
                group = [
                    _Array(x.node, copy, x.where, arrays.memory_of(copy, x.where)) for x in group
                ]
        elif any(lazy):
            raise _shared(group, f"tensor.resolve_{next(name for name in lazy if name)}()")
        self._lay_memory(group)

    def _lay_memory(self, group: list[_Array]) -> None:
        if len(group) > 1 and any(isinstance(one.value, bytearray) for one in group):
            raise _shared(group, "bytes(x)")
        low, high = min(one.low for one in group), max(one.high for one in group)
        places = [(x.low - low, x.memory.item) for x in group if tensors.is_tensor(x.value)]
        if len(group) > 1 and padding(places) is None:
            raise _shared(group, "a copy: tensor.clone()")
        start = self.layout.add(group[0].memory.gpu, low, high - low, [x.value for x in group])
        for one in group:
            memory = one.memory
            one.node["offset"] = start + memory.first - low
            if not same_strides(
                memory.shape, memory.strides, strides_of(memory.shape, memory.item)
            ):
                one.node["strides"] = list(memory.strides)


def _sharing(near: list[_Array]) -> list[list[_Array]]:
    """Part arrays whose memory lies between each other's: only some have a byte in common."""
    if all(one.memory.is_dense for one in near) or len(near) > MOST_COMPARED:
        return [near]
    groups: list[list[_Array]] = []
    for one in near:
        mine = [g for g in groups if any(arrays.share(one.memory, x.memory) for x in g)]
        groups = [g for g in groups if g not in mine] + [[one, *(x for g in mine for x in g)]]
    return groups


def nbytes(memory: Memory) -> int:
    """Return the bytes of an array's elements."""
    total = memory.item
    for size in memory.shape:
        total *= size
    return total


def naming_entry(act: Callable[[], Any], where: object) -> Any:
    """Name the entry in an error of the library that made it, or of its subclass."""
    try:
        return act()
    except (SavemarkError, KeyboardInterrupt):
        raise
    except MemoryError as error:
        raise SavemarkError("failed", f"{where}: no memory for a contiguous copy") from error
    except Exception as error:
        raise usage(
            f"the memory of {where} cannot be had: {type(error).__name__}: {str(error)[:200]}",
            "save a plain tensor or array with the same values",
        ) from error


def _shared(group: list[_Array], instead: str) -> SavemarkError:
    names = ", ".join(str(one.where) for one in group[:4])
    return usage(f"{names} share memory in a way that cannot be restored", f"save {instead}")


def _unknown(value: object, where: Where | str) -> SavemarkError:
    instead = [hint for kind, hint in INSTEAD if isinstance(value, kind)]
    return usage(
        f"{where} is a {type(value).__name__}, which cannot be saved",
        f"save {instead[0]}"
        if instead
        else "a state holds dicts, lists, arrays, tensors, bytes, numbers, text and None",
    )
