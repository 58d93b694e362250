"""What a study file may start is said before it is started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from savemark.run import request as room
from savemark.run.request import Request
from savemark.run.start import program_lines
from savemark.run.target import Target
from savemark.study.keys import Keys
from savemark.study.load import load

STUDY = """\
name: mine
repeats: 1
defaults: {storage: posix, size: 1m}
mount:
  - none
  - {name: odd, command: "/opt/odd --now {bucket} {mountpoint}", unmount: "odd-off {mountpoint}"}
trial: {workload: checkpoint}
"""


def _request(tmp_path, targets):
    file = tmp_path / "mine.yaml"
    file.write_text(STUDY)
    return Request(study=str(file), targets=targets, flags={})


def test_each_program_that_mounts_is_named_once(tmp_path):
    bucket = Target.at("s3://b/p", "s3://b/p")
    keys = Keys.load()
    asked = _request(tmp_path, [bucket, replace(bucket, label="two", url="s3://c")])
    lines = program_lines(asked.mounting(keys).targets)
    assert lines == [
        "this study starts programs: /opt/odd --now {bucket} {mountpoint} "
        "(and to unmount: odd-off {mountpoint})"
    ]
    assert program_lines([Target("a", Path("/a"))]) == []


def test_the_study_file_is_read_once(tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(room, "load", lambda file, keys: read.append(file) or load(file, keys))
    keys = Keys.load()
    (tmp_path / "disk").mkdir()
    asked = _request(tmp_path, [Target.at("b", "s3://b/p")])
    mounting = asked.mounting(keys)
    replace(mounting, targets=[Target("disk", tmp_path / "disk")]).prepare(keys)
    assert len(read) == 1
