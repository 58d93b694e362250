"""The types of records are those of the schema of the engine, and hold all that is written."""

import json
from pathlib import Path

import msgspec
import pytest

import foreign
import samples
from savemark import _engine
from savemark.errors import SavemarkError
from savemark.records.head import Head
from savemark.records.phase import Phase
from savemark.records.record import Line, Record, Trial
from savemark.records.stored import checked
from savemark.tools import NAMES, tool
from savemark.tools.source import Source

DATA = Path(__file__).parent / "data"
# Only in what a rank sends: it is merged away before a record is written.
OF_A_RANK = {"Phase.histograms"}
KINDS = {"integer": int, "number": float, "string": str, "boolean": bool}


def fields(kind):
    """The fields of a struct by the names that they are stored under, each with its type."""
    info = msgspec.inspect.type_info(kind)
    return {field.encode_name: field.type for field in info.fields}


def plain(kind):
    """A type without `| None`."""
    if isinstance(kind, msgspec.inspect.UnionType):
        (kind,) = (each for each in kind.types if not isinstance(each, msgspec.inspect.NoneType))
    return kind


def differences(where, kind, schema, defs):
    """What a struct lacks of an object of the schema, or has as another type."""
    own = fields(kind)
    for name, part in schema["properties"].items():
        path = f"{where}.{name}"
        if path in OF_A_RANK:
            continue
        if name not in own:
            yield f"{path} is missing"
        elif name not in ("schema", "trial"):
            yield from mismatches(path, own[name], part, defs)


def mismatches(path, kind, part, defs):
    options = part.get("anyOf") or [part]
    parts = [each for each in options if each.get("type") != "null"]
    nullable = len(parts) < len(options) or "null" in part.get("type", ())
    if nullable and not isinstance(kind, msgspec.inspect.UnionType):
        yield f"{path} may be null"
    (part,) = parts
    kind = plain(kind)
    if "$ref" in part:
        name = part["$ref"].removeprefix("#/$defs/")
        target = defs[name]
        if isinstance(kind, msgspec.inspect.StructType):
            yield from differences(name, kind.cls, target, defs)
        elif target.get("type") != "string" and "oneOf" not in target:
            yield f"{path} is an object"
    elif part["type"] == "array":
        if not isinstance(kind, msgspec.inspect.ListType):
            yield f"{path} is a list"
        else:
            yield from mismatches(f"{path}[]", kind.item_type, part["items"], defs)
    else:
        names = [part["type"]] if isinstance(part["type"], str) else part["type"]
        (wanted,) = (KINDS[name] for name in names if name != "null")
        found = type(kind).__name__.removesuffix("Type").lower()
        if found != wanted.__name__:
            yield f"{path} is {wanted.__name__}, not {found}"


def test_the_types_are_those_of_the_engines_schema():
    schema = json.loads(_engine.record_schema())
    assert list(differences("Record", Record, schema, schema["$defs"])) == []


def unknown(value, kind, where=""):
    """The keys of a JSON value that its type lacks, and would be passed over."""
    kind = plain(kind) if isinstance(kind, msgspec.inspect.Type) else kind
    if isinstance(kind, msgspec.inspect.ListType) and isinstance(value, list):
        for each in value:
            yield from unknown(each, kind.item_type, where)
    if isinstance(kind, msgspec.inspect.StructType) and isinstance(value, dict):
        own = fields(kind.cls)
        yield from (f"{where}.{name}" for name in value if name not in own)
        for name, each in value.items():
            if name in own:
                yield from unknown(each, own[name], f"{where}.{name}")


def lost(value, kind):
    return sorted(set(unknown(value, msgspec.inspect.type_info(kind))))


@pytest.mark.parametrize("name", NAMES)
def test_no_reader_says_what_the_types_pass_over(name):
    read = 0
    for path in sorted((DATA / name).glob("*")):
        try:
            found = tool(name).parse(Source.of(path))
        except SavemarkError:
            continue
        for entry in found.entries:
            read += 1
            assert lost(entry, Trial) == [], path
            msgspec.convert(entry, Trial)
    assert read


def test_no_live_record_holds_what_the_types_pass_over(tmp_path):
    own = json.loads(
        _engine.Engine().run(
            json.dumps(
                {"workload": "checkpoint", "size": 1 << 20, "target": str(tmp_path)}
                | {"storage": "posix", "direct": False}
            )
        )
    )
    theirs = foreign.run(
        {"workload": "sequential", "tool": "dd", "size": 1 << 20}, tmp_path, tmp_path / "tools"
    )
    for record in (own, theirs):
        assert lost(record, Record) == []
        msgspec.convert(record, Record)


@pytest.mark.parametrize("name", sorted(samples.STUDIES))
def test_no_recorded_run_holds_what_the_types_pass_over(name, tmp_path):
    folder = samples.unpacked(name, tmp_path / "run")
    for text in (folder / "records.jsonl").read_bytes().splitlines():
        assert lost(json.loads(text), Line) == []


def test_a_type_that_differs_from_the_schema_is_found():
    schema = json.loads(_engine.record_schema())
    changed = json.loads(json.dumps(schema).replace('"first_done_bytes"', '"another"'))
    assert list(differences("Record", Record, changed, changed["$defs"])) == [
        "Phase.another is missing"
    ]
    schema["$defs"]["Worker"]["properties"]["cpu_ns"]["type"] = "string"
    assert list(differences("Record", Record, schema, schema["$defs"])) == [
        "Worker.cpu_ns is str, not int"
    ]


def test_every_phase_that_a_record_may_hold_is_written_and_read_alike():
    phase = Phase(name="save", elapsed_ns=5, durable=False, invalid=[], notes=["a"])
    assert msgspec.json.decode(msgspec.json.encode(phase), type=Phase) == phase


def test_a_newer_field_is_passed_over_and_null_is_unknown():
    line = {"index": 1, "role": "trial", "name": "a", "status": "ok", "newer": {"x": [1]}}
    line["record"] = {"schema": 2, "newer": 1, "phases": [{"name": "save", "elapsed_ns": None}]}
    (phase,) = checked(json.dumps(line).encode(), "here").record.phases
    assert phase.elapsed_ns is None
    assert msgspec.convert({"newer": 1}, Head) == Head()


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ({"name": "save", "elapsed_ns": "soon"}, r"record\.phases\[0\]\.elapsed_ns: .*`str`"),
        ({"name": "save", "elapsed_ns": -1}, r"elapsed_ns: expected `int` >= 0"),
        ({"elapsed_ns": 1}, "missing required field `name`"),
        ({"name": "save", "ranks": {"of": 2, "node": [0], "last_done_ns": [1, 2]}}, "missing"),
        (
            {"name": "save", "ranks": {"of": 2, "node": [0], "last_done_ns": [1, 2]}
             | {"user_bytes": [1], "operations": [1]}},
            "columns of different lengths",
        ),
    ],
)  # fmt: skip
def test_what_is_damaged_in_a_line_is_named(part, why):
    line = {"index": 1, "role": "trial", "name": "a", "record": {"schema": 2, "phases": [part]}}
    with pytest.raises(ValueError, match=why):
        checked(json.dumps(line).encode(), "here")
    assert msgspec.convert({**line, "record": None}, Line).record is None
