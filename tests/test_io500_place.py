"""The place of a score of IO500 among those of others."""

import json
from pathlib import Path

import pytest

from savemark.records import io500 as format_
from savemark.records.io500 import PHASES
from test_io500 import DATA, savemark

SHARED = Path(__file__).parent.parent.parent / "shared/data/io500-submissions"


def submission(folder, name, factor, *, invalid=()):
    rates = {
        phase: format_.Line(factor * (1 + at % 3), 301.0, invalid)
        for at, phase in enumerate(PHASES)
    }
    outcome = format_.Outcome("io500-x", 10, rates)
    format_.write(folder / name, outcome, format_.settings({}))
    return outcome


def test_a_score_is_placed_among_the_valid_ones_of_a_folder(tmp_path):
    for name, factor in (("a/site", 4.0), ("b", 2.0), ("c", 1.0)):
        submission(tmp_path / "others", name, factor)
    submission(tmp_path / "others", "d", 9.0, invalid=("it was short",))
    submission(tmp_path / "others", "again/b", 2.0)
    (tmp_path / "others/e").mkdir()
    (tmp_path / "others/e/result.txt").write_text("[run]\nconfig-hash = 1\n")
    submission(tmp_path, "mine", 3.0)
    done = savemark("io500", tmp_path / "mine", "--among", tmp_path / "others")
    assert done.returncode == 0, done.stderr
    assert "rank 2 of 4 by score, between a/site (" in done.stdout
    assert "3 results, 2 without a valid score left out" in done.stdout
    data = json.loads(
        savemark("io500", tmp_path / "mine", "--among", tmp_path / "others", "--json").stdout
    )
    assert data[0]["standing"]["bandwidth"]["rank"] == 2
    best = savemark("io500", tmp_path / "others/a/site", "--among", tmp_path / "others").stdout
    assert "rank 1 of 3 by score, above" in best, "nobody competes with itself"
    submission(tmp_path, "last", 0.1)
    last = savemark("io500", tmp_path / "last/result_summary.txt", "--among", tmp_path / "others")
    assert "rank 4 of 4 by score, below c (" in last.stdout


def test_what_has_no_score_has_no_place(tmp_path):
    submission(tmp_path / "others", "a", 1.0)
    cut = (DATA / "result_2026.txt").read_text().split("[mdtest-hard-stat]")[0]
    (tmp_path / "cut.txt").write_text(cut)
    done = savemark("io500", tmp_path / "cut.txt", "--among", tmp_path / "others")
    assert "it has no score, so it has no rank" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "nothing"),
        (["."], "no run folder"),
        (["other.txt"], "no result of IO500"),
        (["good", "--among", "nothing"], "no such folder"),
        (["good", "--among", "empty"], "no result_summary.txt or result.txt below it"),
    ],
)
def test_what_is_no_result_is_named(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.txt").write_text("nothing of IO500")
    (tmp_path / "empty").mkdir()
    submission(tmp_path, "good", 1.0)
    done = savemark("io500", *words)
    assert done.returncode == 2 and said in done.stderr, done.stderr


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared/data")
def test_ranks_among_real_submissions():
    from savemark.report import standing

    field = standing.field(SHARED)
    first = max(field.scores, key=lambda name: field.scores[name][2])
    assert first == "submission-684" and len(field.scores) > 15
    found = standing.of(SHARED / "submission-725/result.txt")
    place = field.place(next(iter(found.values()))).places["score"]
    better = sum(score[2] > 28.03 for score in field.scores.values())
    assert (place.rank, place.total) == (better + 1, len(field.scores))
