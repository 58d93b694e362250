"""Makes room for a state, new or in what the caller gives, and puts together what was read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from savemark.checkpoint import arrays, matching, nodes, tensors
from savemark.checkpoint.index import DICTS, FACTORIES
from savemark.checkpoint.layout import Loan, address_of
from savemark.checkpoint.matching import Leaf
from savemark.checkpoint.memory import Memory, clusters, padding
from savemark.checkpoint.nodes import Array, Branch, Bytes, Tree, Value
from savemark.errors import SavemarkError


class Filling:
    """A restore: lend `loan` to the engine to be filled, then call `finish` for the state."""

    def __init__(self, tree: Tree, into: object) -> None:
        self.loan = Loan()
        self._tree, self._into = tree, into
        # By the identities of a node and of what it goes into.
        self._values: dict[tuple[int, int], Any] = {}
        # What was restored, as what it was saved as: a parameter, for one.
        self._saved: dict[tuple[int, bool, bool], Any] = {}
        self._after: list[Callable[[], None]] = []
        leaves = matching.leaves(tree, into)
        try:
            for key, leaf in leaves.items():
                if leaf.low == leaf.high:
                    self._values[key] = _made(leaf) if leaf.memory is None else leaf.into
            keys = {id(leaf): key for key, leaf in leaves.items()}
            for group in clusters(leaves.values()):
                values = self._region(group)
                self._values |= {keys[id(x)]: v for x, v in zip(group, values, strict=True)}
        except MemoryError as error:
            raise SavemarkError(
                "failed", f"no memory for the state: {error}", "free some, or restore with `into`"
            ) from error
        except (ValueError, TypeError, OverflowError) as error:
            raise nodes.damaged(f"{type(error).__name__}: {error}") from None

    def finish(self) -> Any:
        """Return the state: `into`, where it was given, or a new one."""
        for step in self._after:
            step()
        return self._value(self._tree, self._into)

    def _lend(self, low: int, high: int, memory: Any) -> None:
        self.loan.lend(low, memory.gpu, memory.low, high - low, memory.owner)

    def _region(self, group: list[Leaf]) -> list[Any]:
        """Lend memory for a range of the data, and return the arrays of it."""
        low, high = min(x.low for x in group), max(x.high for x in group)
        given = [leaf for leaf in group if leaf.is_direct and (leaf.low, leaf.high) == (low, high)]
        for whole in given:
            if all(leaf.into is whole.into or leaf.goes_with(whole) for leaf in group):
                self._lend(low, high, whole.memory)
                return [leaf.into for leaf in group]
        first = group[0]
        if all(leaf.node == first.node for leaf in group):
            room, memory = (given[0].into, given[0].memory) if given else _room(group)
            self._lend(low, high, memory)
            return [self._copied(leaf, room) for leaf in group]
        return self._views(group, low, high)

    def _views(self, group: list[Leaf], low: int, high: int) -> list[Any]:
        """Lay arrays that share a part of their memory over one block."""
        if any(isinstance(leaf.node, Bytes) for leaf in group):
            raise ValueError(f"{group[0].where} lies over something else")
        found = [(leaf, leaf.node) for leaf in group if isinstance(leaf.node, Array)]
        pad = padding([(x.low - low, x.item) for _, x in found if x.library == "torch"])
        if pad is None:
            raise ValueError(f"{group[0].where} has an address that no tensor has")
        library = "numpy" if any(x.library == "numpy" for _, x in found) else "torch"
        block = arrays.block(library, pad + high - low)
        memory = arrays.memory_of(block, "the state")
        self.loan.lend(low, None, memory.low + pad, high - low, block)
        views: dict[Array, Any] = {}
        for _, x in found:
            if x not in views:
                at = pad + x.first - low
                views[x] = arrays.view(block, x.library, x.dtype, x.shape, x.strides, at)
        return [self._copied(leaf, views[x]) for leaf, x in found]

    def _copied(self, leaf: Leaf, room: Any) -> Any:
        """Return the array of a leaf: the room itself, or the caller's, filled from it later."""
        if leaf.memory is None or leaf.into is room:
            return room
        self._after.append(lambda: _copy(leaf, room))
        return leaf.into

    def _value(self, node: Tree, into: Any) -> Any:
        if isinstance(node, Value):
            return node.value
        key = id(node), id(into)
        if isinstance(node, Branch):
            if key not in self._values:
                self._values[key] = self._branch(node, into)
            return self._values[key]
        return self._as_saved(node, self._values[key], into)

    def _as_saved(self, node: Array | Bytes, value: Any, into: Any) -> Any:
        if isinstance(node, Bytes):
            return bytes(value) if not node.is_mutable and value is not into else value
        if node.is_scalar:
            return value[()]
        if value is into or node.library != "torch":
            return value
        key = id(value), node.is_parameter, node.requires_grad
        if key not in self._saved:
            self._saved[key] = tensors.as_saved(value, *key[1:])
        return self._saved[key]

    def _branch(self, node: Branch, into: Any) -> Any:
        given = bool(into)
        items = [(key, self._value(item, into[key] if given else None)) for key, item in node.items]
        if node.kind == "tuple":
            return tuple(value for _, value in items)
        if node.kind == "list":
            values = [value for _, value in items]
            if into is None:
                return values
            into[:] = values
            return into
        made = into if into is not None else _dict(node)
        for name, value in items:
            if not given or made[name] is not value:
                made[name] = value
        if node.metadata is not None and hasattr(made, "__dict__"):
            made._metadata = self._value(node.metadata, None)
        return made


def _dict(node: Branch) -> Any:
    if node.type == "defaultdict":
        return defaultdict(FACTORIES[node.default] if node.default else None)
    return DICTS[node.type]()


def _made(leaf: Leaf) -> Any:
    """Return new memory for a leaf of the checkpoint, as it was laid out there."""
    node = leaf.node
    if isinstance(node, Bytes):
        return bytearray(node.bytes)
    return arrays.empty(node.library, node.dtype, node.shape, node.strides)


def _room(group: list[Leaf]) -> tuple[Any, Any]:
    """Return new memory for leaves of the same bytes, on the GPU of what is filled from it."""
    leaf, node = group[0], group[0].node
    if isinstance(node, Bytes):
        made = bytearray(node.bytes)
        return made, Memory(None, address_of(made), (node.bytes,), (1,), 1, made)
    tensor = next((x.into for x in group if tensors.is_tensor(x.into)), None)
    device = None if tensor is None else tensor.device
    made = arrays.empty(node.library, node.dtype, node.shape, node.strides, device)
    return made, arrays.memory_of(made, leaf.where)


def _copy(leaf: Leaf, room: Any) -> None:
    try:
        arrays.copy(leaf.into, room)
    except Exception as error:
        raise SavemarkError(
            "failed",
            f"{leaf.where} could not be filled: {type(error).__name__}: {error}",
            "restore into contiguous arrays, or without `into`",
        ) from error
