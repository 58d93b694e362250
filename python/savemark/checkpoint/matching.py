"""Holds the caller's `into` against the index: every difference is told, before a byte is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from savemark.checkpoint import arrays, tensors
from savemark.checkpoint.index import Where, naming_entry
from savemark.checkpoint.layout import address_of
from savemark.checkpoint.memory import Memory, clusters, same_strides
from savemark.checkpoint.nodes import Array, Branch, Bytes, Tree, Value
from savemark.errors import SavemarkError, usage


@dataclass(frozen=True)
class Leaf:
    """Bytes of the checkpoint, and what they go into: None for new memory."""

    node: Array | Bytes
    into: Any
    where: Where | str
    memory: Memory | None

    @property
    def low(self) -> int:
        """Where its lowest byte lies in the data."""
        return self.node.low

    @property
    def high(self) -> int:
        """Where the data goes on after its highest byte."""
        return self.node.high

    @property
    def is_alike(self) -> bool:
        """Whether the caller's memory has the elements in the places in which the data has them."""
        if self.memory is None or isinstance(self.node, Bytes):
            return self.memory is not None
        lazy = tensors.is_tensor(self.into) and tensors.is_lazy(self.into)
        return not lazy and same_strides(self.node.shape, self.node.strides, self.memory.strides)

    @property
    def is_direct(self) -> bool:
        """Whether the data can be read straight into the caller's memory."""
        return self.memory is not None and self.is_alike and self.memory.is_dense

    def goes_with(self, other: Leaf) -> bool:
        """Tell whether both are laid to each other in memory as they are in the data."""
        if self.memory is None or other.memory is None or self.memory.gpu != other.memory.gpu:
            return False
        is_moved = self.memory.low - self.low != other.memory.low - other.low
        return self.is_alike and other.is_alike and not is_moved


def leaves(tree: Tree, into: object) -> dict[tuple[int, int], Leaf]:
    """Return what is to be read, by the identities of node and place.

    A usage error names every difference between the checkpoint and `into`.
    """
    matcher = _Matcher()
    matcher.match(tree, into, "state")
    matcher.check_shared()
    differences = matcher.differences
    if differences:
        count = f"in {len(differences)} places: " if len(differences) > 1 else ""
        raise usage(
            f"`into` and the checkpoint differ {count}" + "; ".join(differences),
            "restore into a state of the same tree, or without `into`. Nothing was filled",
        )
    return matcher.leaves


class _Matcher:
    def __init__(self) -> None:
        self.leaves: dict[tuple[int, int], Leaf] = {}
        self.differences: list[str] = []
        self._seen: set[tuple[int, int]] = set()

    def match(self, node: Tree, into: Any, where: Where | str) -> None:
        if isinstance(node, Value):
            self._value(node, into, where)
            return
        pair = id(node), id(into)
        if pair in self._seen:
            return
        self._seen.add(pair)
        if isinstance(node, Branch):
            self._branch(node, into, where)
        else:
            self._leaf(node, into, where)

    def _differ(self, where: object, into: Any, wanted: str) -> None:
        library = arrays.library_of(into)
        mine = f"a {library} array" if library else f"a {type(into).__name__}"
        self.differences.append(f"{where} is {mine}; the checkpoint has {wanted}")

    def _value(self, node: Value, into: Any, where: Where | str) -> None:
        mine, other = _kind(into), _kind(node.value)
        if mine == "" or (mine != other and "None" not in (mine, other)):
            self._differ(where, into, f"{other} {str(node.value)[:40]!r}")

    def _branch(self, node: Branch, into: Any, where: Where | str) -> None:
        if node.kind == "dict":
            fits = isinstance(into, dict)
        else:
            fits = isinstance(into, list) if node.kind == "list" else type(into) is tuple
        if into is not None and not fits:
            self._differ(where, into, f"a {node.kind} of {len(node.items)}")
            return
        # None, and an empty dict or list, give nothing: what the checkpoint has comes new.
        given = into is not None and (len(into) > 0 or node.kind == "tuple")
        if given and node.kind == "dict":
            keys = {key for key, _ in node.items}
            missing = [str(Where(where, key)) for key, _ in node.items if key not in into]
            more = [str(Where(where, key)) for key in into if key not in keys]
            self.differences += [f"{name} is missing in `into`" for name in missing]
            self.differences += [f"{name} is not in the checkpoint" for name in more]
        elif given and len(into) != len(node.items):
            self._differ(where, into, f"a {node.kind} of {len(node.items)}, not {len(into)}")
            return
        for key, item in node.items:
            if not given or node.kind != "dict" or key in into:
                self.match(item, into[key] if given else None, Where(where, key))
        if node.metadata is not None:
            self.match(node.metadata, None, where)

    def _leaf(self, node: Array | Bytes, into: Any, where: Where | str) -> None:
        known = len(self.differences)
        fit = self._array if isinstance(node, Array) else self._bytes
        memory = fit(node, into, where) if into is not None else None  # type: ignore[arg-type]
        if len(self.differences) == known:
            room = into if memory is not None else None
            self.leaves[id(node), id(into)] = Leaf(node, room, where, memory)

    def _bytes(self, node: Bytes, into: Any, where: Where | str) -> Memory | None:
        if isinstance(into, bytes):
            return None
        if not isinstance(into, bytearray | memoryview):
            self._differ(where, into, f"{node.bytes} bytes")
            return None
        view = memoryview(into)
        if view.nbytes != node.bytes or view.readonly or not view.c_contiguous:
            self._differ(where, into, f"{node.bytes} bytes, which need a writable buffer as long")
            return None
        return Memory(None, address_of(view), (node.bytes,), (1,), 1, into)

    def _array(self, node: Array, into: Any, where: Where | str) -> Memory | None:
        if node.is_scalar:
            if not arrays.is_scalar(into) and _kind(into) != "number":
                self._differ(where, into, f"a single {node.dtype}")
            return None
        if arrays.library_of(into) != node.library:
            self.differences.append(
                f"{where} is a {type(into).__name__}, not a {node.library} array; "
                f"the checkpoint has {node}"
            )
            return None
        try:
            arrays.check(into, where)
            dtype = arrays.dtype_name(into, where)
            memory: Memory = naming_entry(lambda: arrays.memory_of(into, where), where)
        except SavemarkError as error:
            self.differences.append(error.message)
            return None
        if (dtype, memory.shape) != (node.dtype, node.shape):
            self.differences.append(f"{where} is {dtype} {memory.shape}; the checkpoint has {node}")
        elif not arrays.is_writeable(into):
            self.differences.append(f"{where} is read-only")
        elif not memory.is_injective:
            self.differences.append(f"{where} has elements that share a place: fill a copy of it")
        return memory

    def check_shared(self) -> None:
        """Find entries that share memory, and do not share the same of it in the checkpoint."""
        filled = [_Filled(leaf, leaf.memory) for leaf in self.leaves.values() if leaf.memory]
        for gpu in {one.memory.gpu for one in filled}:
            for group in clusters(one for one in filled if one.memory.gpu == gpu):
                self._check_group(group)

    def _check_group(self, group: list[_Filled]) -> None:
        for i, one in enumerate(group):
            for other in group[i + 1 :]:
                if other.low >= one.high:
                    break
                a, b = one.leaf, other.leaf
                is_one = a.low < b.high and b.low < a.high
                if not (is_one and a.goes_with(b)) and arrays.share(one.memory, other.memory):
                    self.differences.append(f"{a.where} and {b.where} share memory here alone")


@dataclass(frozen=True)
class _Filled:
    leaf: Leaf
    memory: Memory

    @property
    def low(self) -> int:
        return self.memory.low

    @property
    def high(self) -> int:
        return self.memory.high


def _kind(value: object) -> str:
    if value is None:
        return "None"
    if isinstance(value, str):
        return "text"
    is_number = isinstance(value, bool | int | float) and arrays.library_of(value) is None
    return "number" if is_number or arrays.is_scalar(value) else ""
