"""What a default run says is held against the reference as bench/decide.py promises."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "bench"))

from decide import Truth, held_against, judge, write_study

from savemark.study.keys import Keys
from savemark.study.load import load
from savemark.study.shipped import find

GB = 1e9


def cell(setting, save, restore, n=12):
    rates = {"save_user_bytes_per_s": save * GB, "restore_user_bytes_per_s": restore * GB}
    times = {"save_s_median": 4 / save, "restore_s_median": 4 / restore}
    return {"setting": setting, "n": n, "total_s_median": sum(times.values()), **times, **rates}


def digest(cells, best="none × 4", state="trusted", pays=1.0):
    answer = {"advised": {"setting": best} if best else None}
    target = {"answers": [answer], "codec_pays_below_bytes_per_s": pays and pays * GB}
    return {"cells": cells, "targets": [target], "state": state, "reason": ""}


CELLS = [cell("none × 4", 2.0, 2.0), cell("lz4 × 4", 1.98, 1.9), cell("none × 1", 1, 1)]
TRUTH = Truth(digest(CELLS))


def held(*cells, **said):
    return held_against(TRUTH, digest(list(cells), **said), 100.0)


def test_a_run_that_says_what_is_true_is_not_wrong():
    found = held(cell("none × 4", 2.1, 1.95, 6), cell("none × 1", 1.3, 1, 6), pays=1.1)
    assert (found.setting, found.loss, found.wrong) == ("none × 4", 0, False)
    assert found.off == pytest.approx(0.05)
    assert found.all_off == pytest.approx(0.3)
    assert found.threshold_off == pytest.approx(0.1)


@pytest.mark.parametrize(
    "said",
    [
        held(cell("none × 1", 1, 1, 6), best="none × 1"),  # half as fast as the best
        held(cell("none × 4", 2.0, 2.3, 6)),  # its speed is not so
    ],
    ids=["setting", "speed"],
)
def test_wrong_answers_are_wrong_whatever_they_are_called(said):
    assert said.wrong
    with pytest.raises(SystemExit):
        judge([said] * 2, neighbour=True)


def test_beside_a_neighbour_a_provisional_answer_may_be_wrong():
    said = held(cell("none × 1", 1, 1, 6), best="none × 1", state="provisional")
    judge([said] * 2, neighbour=True)
    with pytest.raises(SystemExit):
        judge([said] * 2, neighbour=False)


def test_no_answer_is_not_wrong_and_not_within_anything():
    found = held(cell("none × 4", 2.0, 2.0, 6), best=None, state="no answer", pays=None)
    assert (found.setting, found.loss, found.off, found.threshold_off) == (None,) * 4
    assert not found.wrong


def test_the_reference_measures_every_candidate_of_the_default_study(tmp_path):
    write_study(tmp_path / "study.yaml", 12, 1 << 30)
    study = load(tmp_path / "study.yaml", Keys.load())
    shipped = load(find("quick"), Keys.load())
    assert study.cells() == shipped.cells()
    assert (study.race, study.repeats, study.order) == (None, 12, "balanced")
    assert study.defaults["size"] == 1 << 30
