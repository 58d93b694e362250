"""The keys that a trial takes, read from the engine's schema (the one place that defines them)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from savemark import tools
from savemark.errors import SavemarkError, did_you_mean, usage
from savemark.tools import ENGINE, RUNNABLE

Trial = dict[str, Any]

AUTO = "auto"
# Keys that the engine does not know; the level of `tool` that is the engine.
TOOL, MOUNT_CACHE = "tool", "mount_cache"
RANKS, NODES, RANKS_PER_NODE = PLACES = ("ranks", "nodes", "ranks_per_node")
OURS = (TOOL, MOUNT_CACHE, *PLACES)


@dataclass(frozen=True)
class Key:
    """One option of a trial, as the schema describes it."""

    name: str
    description: str
    default: object
    kind: str  # size, span, integer, number, boolean or string
    nullable: bool
    choices: tuple[str, ...]

    def read(self, value: object) -> object:
        """Return a study file's value in base units (bytes, seconds); `auto` stays."""
        if not isinstance(value, str) or value == AUTO:
            return value
        import savemark._engine as engine

        if self.kind == "size":
            return engine.parse_size(value)
        if self.kind == "span":
            return engine.parse_span(value)
        if self.choices and value not in self.choices:
            raise usage(f"`{value}` is not known", did_you_mean(value, list(self.choices)))
        return value

    def read_text(self, text: str) -> object:
        """Return the value of a flag or an environment variable."""
        if self.nullable and text == "null":
            return None
        try:
            if self.kind == "integer":
                return int(text)
            if self.kind == "number":
                return float(text)
        except ValueError:
            raise usage(f"{self.flag}: `{text}` is not a number") from None
        if self.kind == "boolean":
            if text not in ("true", "false"):
                raise usage(f"{self.flag}: `{text}` is neither true nor false")
            return text == "true"
        from savemark._engine import EngineError

        try:
            return self.read(text)
        except (EngineError, SavemarkError) as error:
            raise usage(f"{self.flag}: {error.message}", error.hint) from None

    @property
    def flag(self) -> str:
        """The command line's spelling: `--queue-depth`."""
        return "--" + self.name.replace("_", "-")


class Keys:
    """All keys, and which of them a workload on a storage accepts."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.by_name: dict[str, Key] = {
            "workload": _tag("workload", "What is done.", schema["workloads"]),
            "storage": _tag("storage", "Where bytes go.", schema["storages"]),
            **{key.name: key for key in _ours()},
        }
        self._own: dict[tuple[str, str], Key] = {}
        self.common = self._collect(schema["common"], "") | {"workload", "storage", *OURS}
        self.workloads = self._collect_each(schema["workloads"])
        self.storages = self._collect_each(schema["storages"])

    @classmethod
    def load(cls) -> Keys:
        """Ask the engine."""
        import savemark._engine as engine

        return cls(json.loads(engine.schema()))

    def _collect_each(self, schemas: dict[str, dict[str, Any]]) -> dict[str, frozenset[str]]:
        return {owner: self._collect(schema, owner) for owner, schema in schemas.items()}

    def _collect(self, schema: dict[str, Any], owner: str) -> frozenset[str]:
        properties = schema.get("properties", {})
        for name, prop in properties.items():
            key = self._own[owner, name] = _key(name, prop, schema.get("$defs", {}))
            known = self.by_name.setdefault(name, key)
            if known.default != key.default:
                # Workloads may start from different values; then none of them is "the" default.
                self.by_name[name] = replace(known, default=None)
        return frozenset(properties)

    def accepted(self, workload: object, storage: object) -> frozenset[str]:
        """Return the keys of a trial; of every storage where `storage` is None."""
        storages = self.storages.values() if storage is None else [self._storage(storage)]
        return self.common.union(self.workloads.get(str(workload), frozenset()), *storages)

    def of(self, workload: object, name: str) -> Key:
        """Return a key as a workload describes it; others may mean something else by its name."""
        return self._own.get((str(workload), name)) or self.key(name)

    def of_storages(self) -> frozenset[str]:
        """Return the keys that are some storage's own."""
        return frozenset().union(*self.storages.values()) - self.common

    def _storage(self, name: object) -> frozenset[str]:
        return self.storages.get(str(name), frozenset())

    def key(self, name: str) -> Key:
        """Return a key by its name; a usage error names the nearest right one."""
        if name not in self.by_name:
            raise usage(f"unknown key `{name}`", did_you_mean(name, list(self.by_name)))
        return self.by_name[name]


def resolve(trial: Trial, target: str = "/") -> Trial:
    """Return the trial with every default, as the engine fills them in.

    A trial of another tool keeps `tool`, and is refused here if that tool cannot express it.
    """
    import savemark._engine as engine

    own, ours = split_ours(trial)
    resolved: Trial = json.loads(engine.resolve(json.dumps({**own, "target": target})))
    resolved |= ours
    if tool_of(trial) and target != "/":
        tools.check(resolved, target)
    return resolved


def split_ours(trial: Trial) -> tuple[Trial, Trial]:
    """Return the trial as the engine knows it, and the keys that it does not know."""
    own = {name: value for name, value in trial.items() if name not in OURS}
    return own, {name: value for name, value in trial.items() if name in OURS}


def tool_of(trial: Trial) -> str | None:
    """Return the other tool that runs a trial, None where the engine does."""
    tool = trial.get(TOOL)
    return None if tool in (None, ENGINE) else str(tool)


def ranks_of(trial: Trial) -> int:
    """Return how many ranks a trial has, as far as it says so: one without a word of them."""
    each, nodes = trial.get(RANKS_PER_NODE), trial.get(NODES)
    return int(trial.get(RANKS) or int(each or 1) * int(nodes or 1))


def _ours() -> list[Key]:
    """Return the keys that the engine does not know: who runs a trial, and around it."""
    tools, caches = (ENGINE, *RUNNABLE), ("cold", "warm")
    who = "Which program does it: this one, or another whose output is held to the same checks."
    how = "Of a mounted bucket, before a read: mounted anew with an empty cache, or left as it is."
    some = {
        RANKS: "Processes that run a trial, of those that mpirun or srun started; all without it.",
        NODES: "Nodes that they are on; all without it.",
        RANKS_PER_NODE: "Processes on each of these nodes.",
    }
    return [
        Key(TOOL, who, ENGINE, "string", nullable=False, choices=tools),
        Key(MOUNT_CACHE, how, "cold", "string", nullable=False, choices=caches),
        *(
            Key(name, text, None, "integer", nullable=True, choices=())
            for name, text in some.items()
        ),
    ]


def _tag(name: str, description: str, choices: dict[str, Any]) -> Key:
    """Return the key that names a workload or a storage; the schema lists them, not their key."""
    return Key(name, description, None, "string", nullable=False, choices=tuple(choices))


def _key(name: str, prop: dict[str, Any], defs: dict[str, Any]) -> Key:
    parts = list(_alternatives(prop, defs))
    types = {kind for part in parts for kind in _types(part)}
    formats = [part["format"] for part in parts if part.get("format") in ("size", "span")]
    plain = [kind for kind in ("integer", "number", "boolean") if kind in types]
    return Key(
        name=name,
        description=" ".join(str(prop.get("description", "")).split()),
        default=prop.get("default"),
        kind=(formats + plain + ["string"])[0],
        nullable="null" in types,
        choices=tuple(value for part in parts for value in _constants(part)),
    )


def _alternatives(prop: dict[str, Any], defs: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every schema that a value may match, references followed."""
    if "$ref" in prop:
        yield from _alternatives(defs[prop["$ref"].rsplit("/", 1)[-1]], defs)
    for word in ("anyOf", "oneOf", "allOf"):
        for part in prop.get(word, []):
            yield from _alternatives(part, defs)
    yield prop


def _types(part: dict[str, Any]) -> list[str]:
    kind = part.get("type", [])
    return kind if isinstance(kind, list) else [kind]


def _constants(part: dict[str, Any]) -> list[str]:
    values = [*part.get("enum", []), *([part["const"]] if "const" in part else [])]
    return [value for value in values if isinstance(value, str)]
