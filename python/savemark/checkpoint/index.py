"""The index of a saved state: its tree, dtypes, shapes and small values, as JSON.

Reading it runs no code of the checkpoint. Every node is checked before memory is made for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from savemark.checkpoint import arrays
from savemark.checkpoint.devices import OnGpu
from savemark.checkpoint.layout import Layout, Lent, lend
from savemark.errors import SavemarkError, usage

FORMAT, VERSION = "savemark-state", 1
Node = dict[str, Any]


def write(state: object) -> tuple[bytes, Layout]:
    """Return the index of a state, and its buffers laid out."""
    layout = Layout()
    head = {"format": FORMAT, "version": VERSION, "tree": _node(state, "state", layout)}
    return json.dumps(head, separators=(",", ":"), allow_nan=False).encode(), layout


def _node(value: Any, where: str, layout: Layout) -> Node:
    if value is None or isinstance(value, bool | int | str):
        return {"kind": "value", "value": value}
    if isinstance(value, float) and arrays.library_of(value) is None:
        return {"kind": "float", "value": value.hex()}  # JSON has no infinity and no NaN
    library = arrays.library_of(value)
    if library is not None:
        return _array(value, library, where, layout)
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes(value, where, layout)
    if isinstance(value, Mapping):
        items = []
        for key, item in value.items():
            if isinstance(key, bool) or not isinstance(key, str | int):
                raise usage(f"{where} has the key {key!r}", "keys are text or whole numbers")
            items.append([key, _node(item, f"{where}[{key!r}]", layout)])
        return {"kind": "dict", "items": items}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        nodes = [_node(item, f"{where}[{i}]", layout) for i, item in enumerate(value)]
        return {"kind": kind, "items": nodes}
    raise usage(
        f"{where} is a {type(value).__name__}, which cannot be saved",
        "a state holds dicts, lists, arrays, tensors, bytes, numbers, text and None",
    )


def _array(value: Any, library: str, where: str, layout: Layout) -> Node:
    dtype = arrays.dtype_name(value, where)  # refuses what has no plain bytes
    flat_bytes = arrays.bytes_of(value, where)
    return {
        "kind": "array",
        "library": library,
        "dtype": dtype,
        "shape": list(value.shape),
        "offset": layout.add(flat_bytes),
        "bytes": flat_bytes.nbytes,
        **({"scalar": True} if arrays.is_scalar(value) else {}),
    }


def _bytes(value: bytes | bytearray | memoryview, where: str, layout: Layout) -> Node:
    view = memoryview(value)
    if not view.c_contiguous:
        raise usage(f"{where} is a memoryview with gaps", "save bytes(view)")
    flat = view.cast("B") if view.nbytes else memoryview(b"")
    kind = "bytearray" if isinstance(value, bytearray) else "bytes"
    return {"kind": kind, "offset": layout.add(flat), "bytes": view.nbytes}


@dataclass
class Plan:
    """What the engine fills: buffers with their places; then what is done with them."""

    lent: list[tuple[int, Any]] = field(default_factory=list)
    on_gpus: list[Lent] = field(default_factory=list)
    after: list[Callable[[], None]] = field(default_factory=list)
    _arrays: dict[str, Any] = field(default_factory=dict)


class Reader:
    """Makes room for the state of an index, new or in what the caller gives."""

    def __init__(self, text: bytes, data_bytes: int) -> None:
        try:
            head = json.loads(text)
            if head["format"] != FORMAT or head["version"] != VERSION:
                raise ValueError(f"version {head['version']} of {head['format']}")
            self._tree: Node = head["tree"]
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(str(error)) from None
        self._data_bytes = data_bytes
        self._plan = Plan()
        self._known: dict[tuple[Any, ...], Any] = {}
        self._used: dict[int, Any] = {}

    def read(self, into: object | None) -> tuple[Callable[[], Any], Plan]:
        """Return the plan, and what to call when it is done to get the state."""
        try:
            return self._node(self._tree, into, "state"), self._plan
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _damaged(f"{type(error).__name__}: {error}") from None

    def _node(self, node: Node, into: Any, where: str) -> Callable[[], Any]:
        kind = node["kind"]
        if kind == "value":
            value = node["value"]
            return lambda: value
        if kind == "float":
            number = float.fromhex(node["value"])
            return lambda: number
        if kind == "array":
            return self._array(node, into, where)
        if kind in ("bytes", "bytearray"):
            return self._bytes(node, into, where)
        if kind == "dict":
            return self._dict(node, into, where)
        if kind in ("list", "tuple"):
            return self._list(node, into, where)
        raise _damaged(f"{where} has the unknown kind {kind!r}")

    def _dict(self, node: Node, into: Any, where: str) -> Callable[[], Any]:
        keys = [key for key, _ in node["items"]]
        if into is not None and (not isinstance(into, Mapping) or set(into) != set(keys)):
            missing = sorted(map(str, set(keys) ^ set(into))) if isinstance(into, Mapping) else keys
            raise usage(
                f"{where} and the checkpoint differ in {', '.join(map(str, missing[:5]))}",
                "restore into a state with the same keys, or without `into`",
            )
        made = {
            key: self._node(item, None if into is None else into[key], f"{where}[{key!r}]")
            for key, item in node["items"]
        }
        return lambda: _fill(into, {key: make() for key, make in made.items()})

    def _list(self, node: Node, into: Any, where: str) -> Callable[[], Any]:
        items, kind = node["items"], list if node["kind"] == "list" else tuple
        if into is not None and (not isinstance(into, kind) or len(into) != len(items)):
            raise usage(f"{where} is not a {kind.__name__} of {len(items)} items")
        made = [
            self._node(item, None if into is None else into[i], f"{where}[{i}]")
            for i, item in enumerate(items)
        ]
        return lambda: kind(make() for make in made)

    def _place(self, node: Node, length: int, where: str) -> int:
        """Check the place of `length` bytes in the data, and return it."""
        offset, found = int(node["offset"]), int(node["bytes"])
        if found != length or offset < 0 or offset + length > self._data_bytes:
            raise _damaged(f"{where} lies outside the data")
        return offset

    def _bytes(self, node: Node, into: Any, where: str) -> Callable[[], Any]:
        length = int(node["bytes"])
        offset = self._place(node, length, where)
        if into is None or isinstance(into, bytes):
            room: Any = bytearray(length)
        else:
            if not isinstance(into, bytearray | memoryview) or memoryview(into).nbytes != length:
                raise usage(f"{where} is not a buffer of {length} bytes")
            room = into
        if length:
            self._lend(offset, memoryview(room).cast("B"))
        return lambda: bytes(room) if node["kind"] == "bytes" and room is not into else room

    def _array(self, node: Node, into: Any, where: str) -> Callable[[], Any]:
        library, dtype = str(node["library"]), str(node["dtype"])
        shape = tuple(int(size) for size in node["shape"])
        if library not in ("numpy", "torch"):
            raise _damaged(f"{where} is of the unknown library {library!r}")
        arrays.require(library)
        if not arrays.is_known(library, dtype) or any(size < 0 for size in shape):
            raise _damaged(f"{where} has the dtype {dtype!r} of {library}, which is not known here")
        length = arrays.item_bytes(library, dtype)
        for size in shape:
            length *= size
        offset = self._place(node, length, where)
        if node.get("scalar"):
            into = None
        key = (library, dtype, shape, offset, length)
        if into is None and length and key in self._known:
            value = self._known[key]  # arrays that shared their memory share it again
        else:
            value = self._room(into, library, dtype, shape, offset, where)
            if into is None:
                self._known[key] = value
        return (lambda: value[()]) if node.get("scalar") else (lambda: value)

    def _room(
        self, into: Any, library: str, dtype: str, shape: tuple[int, ...], offset: int, where: str
    ) -> Any:
        """Return the array to fill, and lend its memory (or that of a stand-in) to the engine."""
        if into is None:
            made = arrays.empty(library, dtype, shape)
            self._lend(offset, arrays.bytes_of(made, where))
            return made
        if arrays.library_of(into) != library:
            raise usage(f"{where} is not a {library} array", f"give one of {dtype} {shape}")
        mine = (arrays.dtype_name(into, where), tuple(into.shape))
        if mine != (dtype, shape):
            raise usage(f"{where} is {mine[0]} {mine[1]}; the checkpoint has {dtype} {shape}")
        if not arrays.is_writeable(into):
            raise usage(f"{where} is read-only", "restore into an array that can be written")
        # What is on a GPU and not torch's is refused by name where it is not contiguous.
        if arrays.is_contiguous(into) or (library == "numpy" and arrays.is_on_gpu(into)):
            self._lend(offset, arrays.bytes_of(into, where))
        else:
            device = into.device if library == "torch" else None
            stand_in = arrays.empty(library, dtype, shape, device)
            self._lend(offset, arrays.bytes_of(stand_in, where))
            self._plan.after.append(lambda: _copy(into, stand_in))
        return into

    def _lend(self, offset: int, flat: Any) -> None:
        """Lend a buffer to the engine; a second one for the same bytes gets a copy afterwards."""
        if flat.nbytes == 0:
            return
        first = self._used.setdefault(offset, flat)
        if first is flat and isinstance(flat, OnGpu):
            self._plan.on_gpus.append(lend(offset, flat))
        elif first is flat:
            self._plan.lent.append((offset, flat))
        elif arrays.address(first) != arrays.address(flat):
            self._plan.after.append(lambda: _copy(flat, first))


def _fill(into: Any, values: dict[Any, Any]) -> Any:
    """Return the new dict; the caller's own one gets the values that are not filled in place."""
    if into is None:
        return values
    for key, value in values.items():
        if into[key] is not value:
            into[key] = value
    return into


def _copy(destination: Any, source: Any) -> None:
    destination, source = (
        each.owner if isinstance(each, OnGpu) else each for each in (destination, source)
    )
    if arrays.library_of(destination) == "torch":
        destination.detach().copy_(import_module("torch").as_tensor(source))
    else:
        destination[...] = source


def _damaged(why: str) -> SavemarkError:
    return SavemarkError(
        "corrupt", f"the index of the state is wrong: {why}", "restore an older checkpoint"
    )
