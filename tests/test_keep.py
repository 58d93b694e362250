"""`savemark save --keep`: several checkpoints in a place, their order, and what goes."""

import json
import re
from pathlib import Path

import pytest

from saved_trees import shards, slow, tree, wait_for_new_shard

PARTIAL = "0123456789abcdef-00000001"


@pytest.fixture
def savemark(real_savemark):
    return real_savemark


def test_keep_removes_old_ones_but_nothing_else(savemark, model, tmp_path):
    place = tmp_path / "place"
    for number in range(4):
        (model / "config.json").write_text(f"{number}")
        done = savemark("save", model, "place", "--keep", "2")
        assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in place.iterdir())
    assert len(names) == 2
    name = r"\d{8}-\d{8}T\d{6}\.\d{6}Z-savemark"
    assert all(re.fullmatch(name, found) for found in names)
    assert [found[:8] for found in names] == ["00000003", "00000004"]
    assert "removed     " in done.stdout
    restored = savemark("restore", "place", "out")
    assert f"from {names[-1]}" in restored.stdout
    assert (tmp_path / "out" / "config.json").read_text() == "3"

    # The newest is damaged: the one before is restored, and stays whatever --keep says.
    shards(place / names[-1])[0].unlink()
    assert names[0] in savemark("restore", "place", "out2").stdout
    listed = savemark("list", "place").stdout
    assert "damaged" in listed
    assert "complete" in listed
    (place / names[0] / "note").write_text("mine")
    savemark("save", model, "place", "--keep", "1")
    assert (place / names[0] / "note").read_text() == "mine"
    assert (place / names[1]).exists(), "a damaged one is left to be looked at"


FUTURE = "21060101T000000.000000Z-savemark"


def test_a_clock_that_went_back_loses_nothing(savemark, model, tmp_path):
    """The checkpoints that are there were saved by a clock far ahead of this one."""
    place = tmp_path / "place"
    savemark("save", model, "place", "--keep", "3")
    (found,) = place.iterdir()
    before = FUTURE
    found.rename(place / before)  # as it was named before names had a number
    for number in range(3):
        (model / "config.json").write_text(f"{number}")
        done = json.loads(savemark("save", model, "place", "--keep", "1", "--json").stdout)
        made = Path(done["checkpoint"])
        assert [path.name for path in place.iterdir()] == [made.name]
        assert done["removed"] == [before]
        assert savemark("restore", "place", f"out{number}").returncode == 0
        assert (tmp_path / f"out{number}" / "config.json").read_text() == f"{number}"
        # The next clock is behind this one by a century.
        before = f"{made.name[:8]}-{FUTURE}"
        (tmp_path / made).rename(place / before)


def test_names_are_ordered_by_their_number_then_by_their_time(savemark, model, tmp_path):
    place = tmp_path / "place"
    early, late = "20250101T000000.000000Z-savemark", FUTURE
    names = [early, late, f"00000007-{late}", f"00000008-{early}", f"00000008-{late}"]
    names.append(f"123456789-{early}")
    for name in names:
        savemark("save", model, place / name)
    listed = json.loads(savemark("list", "place", "--json").stdout)
    assert [row["name"] for row in listed] == names
    assert names[-1] in savemark("verify", "place").stdout
    done = json.loads(savemark("save", model, "place", "--keep", "3", "--json").stdout)
    made = Path(done["checkpoint"]).name
    assert made.startswith("123456790-")
    assert done["removed"] == names[:4]
    assert sorted(path.name for path in place.iterdir()) == sorted([*names[4:], made])


def test_nothing_is_removed_where_the_new_one_is_not_found_complete(
    savemark, model, tmp_path, run, monkeypatch, io
):
    """A storage that loses what it said was durable."""
    from savemark import _engine

    savemark("save", model, "place", "--keep", "1")
    before = tree(tmp_path / "place")
    real = _engine.save_tree

    def lost(trial, *others):
        done = real(trial, *others)
        Path(json.loads(trial)["target"], "manifest.json").unlink()
        return done

    monkeypatch.setattr(_engine, "save_tree", lost)
    code, _, err = run("save", model, tmp_path / "place", "--keep", "1", *io)
    assert code == 1
    assert "nothing older was removed" in err
    assert before.items() <= tree(tmp_path / "place").items()


def test_what_an_unknown_manifest_names_is_no_leftover(savemark, model, tmp_path):
    savemark("save", model, "place", "--keep", "1")
    (found,) = (tmp_path / "place").iterdir()
    manifest = found / "manifest.json"
    manifest.write_bytes(b"\0" + manifest.read_bytes()[1:])
    before = tree(found)
    assert savemark("save", model, "place", "--keep", "1").returncode == 0
    savemark("clean", "place")
    assert tree(found) == before


def test_clean_takes_what_killed_saves_left_in_a_place(start, savemark, io, model, tmp_path):
    savemark("save", model, "place", "--keep", "2")
    place = tmp_path / "place"
    before = tree(place)
    process = start("save", slow(tmp_path), "place", "--keep", "2", "--codec", "gzip", *io)
    wait_for_new_shard(place, set(place.rglob("shard-*")))
    process.kill()
    process.communicate()
    assert "interrupted" in savemark("list", "place").stdout
    (tmp_path / f"place.partial-{PARTIAL}").mkdir()
    done = savemark("clean", "place")
    assert done.returncode == 0, done.stderr
    assert "-savemark/shard-" in done.stdout
    assert tree(place) == before
    assert not list(tmp_path.glob("place.partial-*"))
