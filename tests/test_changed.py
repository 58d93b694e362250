"""A state that somebody writes to while it is saved: nothing is replaced, and it is named."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path

import numpy as np
import pytest

import savemark
from savemark.checkpoint import changed, index
from savemark.errors import SavemarkError


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_an_array_that_changes_during_a_save_is_named_and_replaces_nothing(
    tmp_path: Path, codec: str
) -> None:
    place = tmp_path / "ck"
    weights, still = np.zeros(8 << 20), np.ones(1 << 20)
    state = {"model": {"w": weights}, "still": still}
    savemark.save(state, place)
    before = savemark.restore(place)
    stop = threading.Event()

    def train() -> None:
        while not stop.is_set():
            np.add(weights, 1, out=weights)

    thread = threading.Thread(target=train)
    thread.start()
    try:
        with pytest.raises(SavemarkError) as caught:
            for _ in range(100):  # on a busy machine the thread may have no turn during a save
                savemark.save(state, place, codec=codec)
                before = savemark.restore(place)
    finally:
        stop.set()
        thread.join()
    assert caught.value.kind == "failed"
    assert "state['model']['w'] was written to" in caught.value.message
    assert "Nothing was replaced" in caught.value.message
    restored = savemark.restore(place)
    assert (restored["model"]["w"] == before["model"]["w"]).all()
    assert (restored["still"] == 1).all()
    savemark.save(state, place, codec=codec)
    assert (savemark.restore(place)["model"]["w"] == weights).all()


def test_every_entry_that_may_have_changed_is_named_and_no_other() -> None:
    state = {"a": np.zeros(5, np.uint8), "l": [np.zeros(3, np.uint8), 7], "z": np.zeros(1 << 21)}
    text, layout = index.write(state)
    tree = json.loads(text)["tree"]
    assert list(changed.entries(tree, "state", 0, 100)) == ["state['a']", "state['l'][0]"]
    assert list(changed.entries(tree, "state", layout.bytes - 1, layout.bytes)) == ["state['z']"]
    assert list(changed.entries(tree, "state", layout.bytes, layout.bytes + 9)) == []


def test_what_is_saved_is_its_owners_alone(tmp_path: Path) -> None:
    place = tmp_path / "new" / "ck"
    savemark.save({"a": np.zeros(10)}, place)
    for path in (place.parent, place, *place.iterdir()):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_a_directory_of_a_group_shares_what_is_saved_in_it(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2750)
    savemark.save({"a": np.zeros(10)}, shared / "kept", keep=2)
    made = list(shared.rglob("*"))
    assert {stat.S_IMODE(path.stat().st_mode) & 0o777 for path in made} == {0o750, 0o640}
