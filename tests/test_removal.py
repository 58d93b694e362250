"""What a run removes is what it made: never a foreign folder, a link's end, or what is mounted."""

import fcntl
import json
import os
import socket
import subprocess
import sys
import tempfile

import pytest

import needs
from savemark.errors import SavemarkError
from savemark.places import Directory
from savemark.places.removal import mounted_below, remove_tree
from savemark.run import mounts
from savemark.run.target import Target
from waiting import LIMIT_S


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The directory of temporary files; nothing stays mounted in it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    for point in mounted_below(tmp_path):
        subprocess.run(["umount", "-l", point], check=False)


@pytest.fixture
def mount(temporary):
    """Mounts an own filesystem, or binds a directory of the same one, at a new directory."""
    if os.geteuid():
        needs.missing("mount", "mounting needs root")

    def mount(kind, point):
        point.mkdir(parents=True)
        words = ["-t", "tmpfs", "savemark-test"]
        if kind == "bind":
            source = temporary / "precious"
            source.mkdir()
            words = ["--bind", str(source)]
        subprocess.run(["mount", *words, str(point)], check=True)
        (point / "file").write_text("of the user")
        return point / "file"

    return mount


def folder_of(temporary, run_id="mounts-old", said="mounts-old"):
    """Leave a folder as a killed run does."""
    made = temporary / f"savemark-{run_id}"
    made.mkdir()
    marker = {"run_id": said, "pid": 1, "host": socket.gethostname()}
    (made / ".savemark").write_text(json.dumps(marker))
    return made


def listed(top):
    return sorted(str(path.relative_to(top)) for path in top.rglob("*"))


def test_what_killed_runs_left_is_swept(temporary):
    made = folder_of(temporary)
    (made / "label" / "cache").mkdir(parents=True)
    (made / "label" / "cache" / "part").touch()
    mounts.sweep()
    assert not made.exists()


@pytest.mark.parametrize(
    "name",
    ["savemark-mount-1234", "savemark-mount-mine", "savemark-mounts-mine", "savemark-mounts-"],
)
def test_folders_that_only_look_like_ours_are_left(temporary, name):
    for inside in (name, f"{name}/deep"):
        (temporary / inside).mkdir()
        (temporary / inside / "file").write_text("of the user")
    (temporary / name / "owner").write_text("1")
    before = listed(temporary)
    mounts.sweep()
    assert listed(temporary) == before


def test_a_run_without_mounts_sweeps_nothing(temporary):
    folder_of(temporary)
    before = listed(temporary)
    with mounts.mounted([]) as supervisor:
        assert supervisor is None
    assert listed(temporary) == before


def test_a_folder_whose_lock_is_held_is_left(temporary):
    made = folder_of(temporary)
    with (made / ".savemark").open() as marker:
        fcntl.flock(marker, fcntl.LOCK_EX)
        mounts.sweep()
        assert made.exists()
    mounts.sweep()
    assert not made.exists()


def test_a_folder_of_another_user_is_left(temporary, monkeypatch):
    made = folder_of(temporary)
    monkeypatch.setattr(os, "getuid", lambda: made.stat().st_uid + 1)
    mounts.sweep()
    assert (made / ".savemark").exists()


def test_starts_at_once_do_not_remove_each_others_folders(temporary):
    """Each makes its folder and sweeps, over and over: what one has made is there until it ends."""
    program = f"""
import sys, tempfile
from pathlib import Path
from savemark.places import Directory
from savemark.run import mounts
tempfile.tempdir = {str(temporary)!r}
for number in range(40):
    mounts.sweep()
    folder = Path(tempfile.tempdir) / f"savemark-mounts-{{sys.argv[1]}}-{{number}}"
    lock = Directory(folder).make(0o700)
    mounts.sweep()
    assert Directory(folder).owner().alive, folder
    Directory(folder).remove_owned()
"""
    words = [sys.executable, "-c", program]
    started = [subprocess.Popen([*words, str(n)], stderr=subprocess.PIPE) for n in range(3)]
    for process in started:
        _, said = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, said.decode()
    assert listed(temporary) == []


@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
@pytest.mark.parametrize("where", ["in it", "deeper"])
def test_what_is_mounted_in_a_stale_folder_keeps_its_files(temporary, mount, kind, where):
    made = folder_of(temporary)
    file = mount(kind, made / "label" / "other" if where == "deeper" else made / "other")
    before = listed(made)
    mounts.sweep()
    assert listed(made) == before
    assert file.read_text() == "of the user"


@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
def test_what_is_mounted_in_a_workspace_keeps_its_files(place, mount, temporary, kind):
    with pytest.raises(OSError, match="unmount it"), Directory(place).workspace("id") as folder:
        made = folder.path
        (made / "shard").touch()
        file = mount(kind, made / "deep" / "other")
    assert file.read_text() == "of the user"
    assert (made / "shard").exists(), "nothing is removed where not all can be"


def test_a_stale_mountpoint_is_unmounted_and_removed(temporary, mount):
    made = folder_of(temporary)
    mount("tmpfs", made / "label" / mounts.POINT)
    mounts.sweep()
    assert mounted_below(temporary) == []
    assert not made.exists()


def test_what_is_mounted_after_the_look_keeps_its_files(temporary, mount, monkeypatch):
    made = folder_of(temporary)
    file = mount("tmpfs", made / "other")
    monkeypatch.setattr("savemark.places.removal.mounted_below", lambda _: [])
    with pytest.raises(OSError, match="unmount it"):
        remove_tree(made)
    assert file.read_text() == "of the user"


def test_links_are_removed_and_not_followed(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    made = tmp_path / "made"
    made.mkdir()
    (made / "folder").symlink_to(tmp_path / "kept")
    (made / "file").symlink_to(tmp_path / "kept" / "file")
    remove_tree(made)
    assert listed(tmp_path) == ["kept", "kept/file"]
    made.symlink_to(tmp_path / "kept")
    with pytest.raises(OSError):
        remove_tree(made)
    assert (tmp_path / "kept" / "file").exists()


ODD = {
    "a list": "[1]",
    "a number too large": '{"run_id": "x", "pid": 1e999, "host": "h"}',
    "nested": "[" * 4096,
    "not UTF-8": b"\xff\xfe",
    "another's": '{"run_id": "y", "pid": 1, "host": "h"}',
    "nothing": "",
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_a_marker_that_says_nothing_makes_no_folder_ours(place, text):
    folder = place / "savemark-x"
    folder.mkdir()
    (folder / ".savemark").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert Directory(folder).owner() is None
    Directory(folder).remove_owned()
    assert folder.exists()


def test_a_marker_that_is_a_fifo_is_none_and_nobody_waits(place):
    folder = place / "savemark-x"
    folder.mkdir()
    os.mkfifo(folder / ".savemark")
    code = "import sys; from savemark.places import Directory\n"
    code += "print(Directory(sys.argv[1]).owner())"
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "None\n"


def test_labels_that_are_alike_have_mountpoints_of_their_own():
    labels = ["a-b", "a_b", "a b", "a/b", "..", ".", "ä", "x" * 300, "x" * 300 + "y"]
    points = [
        Target.from_json({"label": label, "mount": {"name": "n", "command": "c"}}).path
        for label in labels
    ]
    assert len(set(points)) == len(labels)
    (folder,) = {point.parent.parent for point in points}
    assert all(len(point.parent.name) < 100 for point in points)
    assert all(not set(point.parent.name) & set("/. ") for point in points)
    assert folder.name.startswith("savemark-mounts-")


def test_a_mount_whose_tool_prints_much_is_told_by_its_last_words(temporary):
    command = "sh -c 'yes loud | head -c 50000000; exit 3' {mountpoint}"
    said = {"name": "loud", "command": command, "url": "s3://bucket/x"}
    with (
        pytest.raises(SavemarkError, match="mount loud: sh ended with 3: loud; loud"),
        mounts.mounted([Target.from_json({"label": "loud", "mount": said})]),
    ):
        pass
    assert listed(temporary) == []
