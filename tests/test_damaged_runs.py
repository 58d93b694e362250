"""A run folder that is damaged, of another version or made by anybody is named, never a bug."""

import json
import os
import re
from pathlib import Path

import pytest

from made_run import Made, make_run
from savemark.errors import SavemarkError
from savemark.records import phases, read_run, versions
from savemark.report.analysis import analyse
from test_hostile_files import savemark

SMALL = {"codecs": ("none", "zstd"), "streams": (0, 4), "repeats": 2}
RUST = Path(__file__).parent.parent / "crates"


@pytest.fixture
def folder(tmp_path):
    return make_run(tmp_path, Made(**SMALL))


def lines(folder):
    """The lines as a run writes them: without spaces."""
    told = map(json.loads, (folder / "records.jsonl").read_bytes().splitlines())
    return [json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in told]


def record_of(line, change):
    item = json.loads(line)
    change(item["record"])
    return json.dumps(item, separators=(",", ":")).encode() + b"\n"


DAMAGES = {
    "cut in the body": lambda line: line[: len(line) // 2] + b"\n",
    "a body that is none": lambda line: line.replace(b'"phases":[', b'"phases":[,', 1),
    "not UTF-8": lambda line: line.replace(b"nvme0n1", b"nvm\xe9", 1),
    "a text for a time": lambda line: record_of(
        line, lambda record: record["phases"][0].update(elapsed_ns="soon")
    ),
    "an endless time": lambda line: line.replace(b'"elapsed_ns":', b'"elapsed_ns":1e400,"x":', 1),
    "no time": lambda line: line.replace(b'"elapsed_ns":', b'"elapsed_ns":NaN,"x":', 1),
    "a long number": lambda line: line.replace(
        b'"elapsed_ns":', b'"elapsed_ns":' + b"9" * 5000 + b',"x":', 1
    ),
    "too deep": lambda line: line.replace(
        b'"phases":[', b'"x":' + b"[" * 100_000 + b"]" * 100_000 + b',"phases":[', 1
    ),
    "phases that are none": lambda line: record_of(line, lambda record: record.update(phases=7)),
    "a stage without a name": lambda line: record_of(
        line, lambda record: record["phases"][0]["stages"].append({"elapsed_ns": 1})
    ),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_line_is_left_out_and_named(folder, what):
    damaged = lines(folder)
    damaged[2] = DAMAGES[what](damaged[2])
    assert damaged[2].count(b"\n") == 1
    (folder / "records.jsonl").write_bytes(b"".join(damaged))
    run = read_run(folder)
    assert run.unreadable_lines == 1
    assert len(run.entries) == len(damaged) - 1
    assert run.unreadable[0].startswith("records.jsonl:3: ")
    assert len(phases(run)) > 0
    (said,) = (f.evidence for f in analyse(run).findings if "could not be read" in f.evidence)
    assert "records.jsonl:3: " in said


def test_the_commands_name_it_too(folder):
    damaged = lines(folder)
    damaged[2] = damaged[2][:900] + b"\n"
    (folder / "records.jsonl").write_bytes(b"".join(damaged))
    code, said = savemark(folder.parent, "check", folder)
    assert code == 0
    assert "records.jsonl:3" in re.sub(r"\s+", " ", said)


HEADS = {
    "empty": b"",
    "cut": b'{"schema":1,"plan":[',
    "a list": b"[]",
    "not UTF-8": b'{"schema":1,"study":{"name":"\xe9"}}',
    "a study that is none": b'{"schema":1,"study":7}',
    "levels that are none": b'{"schema":1,"study":{"factors":{"codec":"zstd"}}}',
    "a plan that is none": b'{"schema":1,"plan":[7]}',
    "an index that is none": b'{"schema":1,"plan":[{"index":"x","role":"trial","name":"a"}]}',
    "a label that is none": b'{"schema":1,"targets":[{"label":{},"target":"/x"}]}',
    "a name that is none": b'{"schema":1,"study":{"factors":{"%s":["a"]}}}' % (b"x" * 5000),
    "too deep": b'{"schema":1,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a long number": b'{"schema":1,"order_seed":' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize("what", HEADS)
def test_a_damaged_head_is_named(folder, what):
    (folder / "run.json").write_bytes(HEADS[what])
    with pytest.raises(SavemarkError, match=r"run\.json is damaged: ") as caught:
        read_run(folder)
    assert caught.value.kind == "usage"
    assert caught.value.hint


def test_a_newer_version_asks_for_an_upgrade(folder):
    newer = [line.replace(b'"schema":1', b'"schema":99') for line in lines(folder)]
    (folder / "records.jsonl").write_bytes(b"".join(newer))
    with pytest.raises(SavemarkError, match=r"records\.jsonl:1 has schema 99") as caught:
        read_run(folder)
    assert "upgrade" in caught.value.hint
    head = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(head | {"schema": 99}))
    for command in (["report", folder], ["run", "--resume", folder]):
        code, said = savemark(folder.parent, *command)
        assert code == 2
        assert "has schema 99" in said
        assert "upgrade" in said


def test_older_versions_are_taken_step_by_step():
    steps = {1: lambda old: {"elapsed_ns": old["ms"] * 10**6}, 2: lambda old: {**old, "unit": "ns"}}
    found = versions.newest({"schema": 1, "ms": 3}, "a", 3, steps)
    assert found == {"schema": 3, "elapsed_ns": 3_000_000, "unit": "ns"}
    assert versions.newest(found, "a", 3, steps) == found
    with pytest.raises(
        SavemarkError, match="a has schema 2, this savemark reads schema 4"
    ) as caught:
        versions.newest({"schema": 2}, "a", 4, {3: dict})
    assert "savemark that wrote it" in caught.value.hint
    for none in ("1", 0, -1, True, 1.0, None):
        with pytest.raises(SavemarkError, match="which is no version"):
            versions.newest({"schema": none}, "a", 3, steps)


def test_the_engine_writes_the_version_that_is_read():
    said = next(
        found[1]
        for path in RUST.rglob("record.rs")
        if (found := re.search(r"const SCHEMA_VERSION: u32 = (\d+);", path.read_text()))
    )
    assert int(said) == versions.RECORD


@pytest.mark.parametrize("name", ["run.json", "records.jsonl"])
def test_a_folder_whose_files_are_none_does_not_hang(folder, name):
    (folder / name).unlink()
    os.mkfifo(folder / name)
    code, said = savemark(folder.parent, "report", folder)
    assert code == 2
    assert "is no regular file but a FIFO" in said
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    code, said = savemark(folder.parent, "check", folder)
    assert code == 2
    assert "is no regular file but a device" in said


def test_a_run_that_was_never_begun_here_is_not_resumed(folder):
    head = json.loads((folder / "run.json").read_text())
    for changed, why in (
        ({"origin": "imported"}, "imported files"),
        ({}, "no `asked`"),
        ({"asked": {"name": "a"}}, "no `forecast`"),
        ({"asked": {"name": "a"}, "forecast": 7}, "no `forecast.seconds`"),
    ):
        (folder / "run.json").write_text(json.dumps(head | changed))
        code, said = savemark(folder.parent, "run", "--resume", folder)
        assert code == 2
        assert why in said


def test_what_was_measured_in_a_thousand_timelines_has_a_limit(folder, monkeypatch):
    monkeypatch.setattr("savemark.limits.MOST_INTERVALS", 100)
    with pytest.raises(SavemarkError, match="more than 100 intervals of timelines"):
        read_run(folder)
