"""Which arguments are targets, which places are refused, and what is removed from them."""

import json
import os
import socket
from pathlib import Path

import pytest

from savemark.errors import SavemarkError
from savemark.places import Directory
from savemark.places.place import MARKER


@pytest.fixture
def target(engine):
    from savemark.run import target

    return target


def stop(call, *arguments):
    with pytest.raises(SavemarkError) as caught:
        call(*arguments)
    return caught.value


def test_arguments_are_told_apart(target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    study, targets = target.parse(("quick", "nvme=/mnt/a", "here", "/mnt/x=y"))
    assert study == "quick"
    assert [(t.label, str(t.path)) for t in targets] == [
        ("nvme", "/mnt/a"),
        ("here", str(tmp_path / "here")),
        ("/mnt/x=y", "/mnt/x=y"),
    ]
    (tmp_path / "my.yaml").write_text("")
    assert target.parse((str(tmp_path / "my.yaml"), "/x"))[0] == str(tmp_path / "my.yaml")


def test_arguments_that_cannot_be_meant(target):
    assert "already" not in stop(target.parse, ("/a", "quick")).message
    assert stop(target.parse, ("quick", "quick")).kind == "usage"
    assert "called `a`" in stop(target.parse, ("a=/x", "a=/y")).message
    assert "LABEL=TARGET" in stop(target.parse, ("a=",)).message


def check(target, path):
    return [str(folder) for folder in target.Target("x", path).place.leftovers()]


def test_a_missing_directory_is_a_usage_error_with_the_fix(target, tmp_path):
    error = stop(check, target, tmp_path / "gone")
    assert (error.exit_code, error.hint) == (2, f"mkdir -p {tmp_path / 'gone'}")


def test_a_file_and_a_device_are_refused(target, tmp_path):
    file = tmp_path / "file"
    file.write_text("precious")
    assert stop(check, target, file).exit_code == 5
    # Any device node will do: it is not opened.
    error = stop(check, target, type(tmp_path)("/dev/null"))
    assert error.exit_code == 5
    assert "raw device" in error.message


def test_a_directory_with_files_is_refused_and_left_alone(target, place):
    (place / "model.bin").write_text("precious")
    error = stop(check, target, place)
    assert error.exit_code == 5
    assert "model.bin" in error.message
    assert error.hint == f"mkdir {place}/savemark && savemark run {place}/savemark"
    assert (place / "model.bin").read_text() == "precious"


def test_lost_and_found_does_not_count(target, place):
    (place / "lost+found").mkdir()
    assert check(target, place) == []


def test_a_read_only_directory_is_refused(target, place, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    assert stop(check, target, place).exit_code == 5


def test_a_read_only_filesystem_is_refused(target, place, monkeypatch):
    real = os.statvfs(place)
    fields = [*real[:8], real.f_flag | os.ST_RDONLY, *real[9:]]
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(fields))
    error = stop(check, target, place)
    assert error.exit_code == 5
    assert "read-only" in error.message


def test_a_place_without_room_is_refused(target, place):
    there = target.Target("x", place)
    target.check_room(there, 0)
    error = stop(target.check_room, there, 1 << 60)
    assert error.exit_code == 5
    assert "free" in error.message
    assert "--size" in error.hint


def test_the_workspace_is_removed_and_nothing_else(engine, place):
    (place / "savemark-other").mkdir()
    (place / "savemark-other" / "precious").write_text("")
    with Directory(place).workspace("id1") as made:
        workspace = made.path
        assert json.loads((workspace / MARKER).read_text())["run_id"] == "id1"
        (workspace / "deep").mkdir()
        (workspace / "deep" / "shard").write_text("x")
        (workspace / "link").symlink_to(place / "savemark-other")
    assert [p.name for p in place.iterdir()] == ["savemark-other"]
    assert (place / "savemark-other" / "precious").exists()


def test_the_workspace_is_removed_when_the_run_fails(engine, place):
    with pytest.raises(OSError, match="disk"), Directory(place).workspace("id1"):
        raise OSError("disk")
    assert not list(place.iterdir())


def test_a_living_run_keeps_others_out(target, place):
    with Directory(place).workspace("id1"):
        error = stop(check, target, place)
        assert error.exit_code == 5
        assert f"another savemark run (pid {os.getpid()}" in error.message


def stale(place, run_id="old", said="old"):
    folder = place / f"savemark-{run_id}"
    folder.mkdir()
    marker = {"run_id": said, "pid": 1, "host": socket.gethostname()}
    (folder / ".savemark").write_text(json.dumps(marker))
    return folder


def test_what_a_killed_run_left_can_be_removed(target, place):
    folder = stale(place)
    assert check(target, place) == [str(folder)]
    Directory(folder).remove_owned()
    assert not folder.exists()


def test_a_folder_with_anothers_marker_is_not_ours(target, place):
    folder = stale(place, run_id="copy", said="original")
    assert stop(check, target, place).exit_code == 5
    Directory(folder).remove_owned()
    assert folder.exists()
    (place / "savemark-link").symlink_to(folder)
    assert Directory(place / "savemark-link").owner() is None


def test_ranks_that_have_not_ended_yet_do_not_keep_the_workspace(place, monkeypatch):
    folder, rmdir, unlink = stale(place), Path.rmdir, os.unlink
    late, early = [folder / "made after the last look"], [folder / "removed after the first look"]

    def after_another_made_one(path):
        while late:
            late.pop().touch()
        rmdir(path)

    def after_another_removed_it(path, **known):
        unlink(path, **known)
        if early:
            early.pop()
            raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr(Path, "rmdir", after_another_made_one)
    monkeypatch.setattr(os, "unlink", after_another_removed_it)
    early[0].touch()
    Directory(folder).remove_owned()
    assert not folder.exists() and not late and not early
