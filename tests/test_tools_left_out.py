"""What another tool cannot express of a study: left out by name, while the rest runs."""

import json
from types import SimpleNamespace

import pytest

import foreign
from savemark.errors import Inexpressible
from savemark.run import child
from savemark.study import inexpressible
from savemark.study.inexpressible import Refusal

STUDY = """
name: some
budget: 1m
repeats: 2
trial: {{workload: sequential, storage: posix, direct: {direct}, size: 8m, queue_depth: 1}}
factors:
  workers: [1, 2, 4]
  tool: [savemark, dd]
"""
REASON = "dd cannot express workers: it is one process"


@pytest.fixture
def study(tmp_path, place):
    file = tmp_path / "some.yaml"
    file.write_text(STUDY.format(direct=str(foreign.on(place)["direct"]).lower()))
    return file


@pytest.fixture
def savemark(to_its_end):
    return to_its_end


def test_what_a_tool_can_do_runs_and_the_rest_is_named(savemark, study, place, tmp_path):
    foreign.need("dd")
    done = savemark("run", study, place, "--out", "out")
    assert done.returncode == 0, done.stderr
    said = f"unavailable on {place}: workers 2|4, tool dd (2 settings left out): {REASON}"
    assert said in " ".join(done.stderr.split())
    lines = [json.loads(line) for line in (tmp_path / "out/records.jsonl").read_text().splitlines()]
    ran = sorted((e["factors"]["workers"], e["factors"]["tool"]) for e in lines)
    ours = [(workers, "savemark") for workers in (1, 2, 4)]
    assert ran == sorted([*ours, (1, "dd")] * 2)
    assert REASON in (tmp_path / "out/report.html").read_text()
    digest = json.loads(savemark("report", "out", "--json").stdout)
    assert [each["cells"] for each in digest["trials"]["unavailable"]] == [2]


def test_such_a_run_is_resumed_with_its_arguments(savemark, study, place, tmp_path):
    foreign.need("dd")
    assert savemark("run", study, place, "--out", "out").returncode == 0
    records = tmp_path / "out" / "records.jsonl"
    kept = records.read_text().splitlines(keepends=True)
    records.write_text("".join(kept[:-3]))
    done = savemark("run", study, place, "--resume", "out")
    assert done.returncode == 0, done.stderr
    assert len(records.read_text().splitlines()) == len(kept)


def test_a_dry_run_says_it_and_lists_what_would_run(savemark, study, place):
    foreign.need("dd")
    shown = savemark("run", study, place, "--dry-run").stdout
    assert f"(2 settings left out): {REASON}" in shown
    settings = next(line for line in shown.splitlines() if line.startswith("settings"))
    assert "workers 1, tool dd" in settings
    assert "workers 2, tool dd" not in settings
    facts = json.loads(savemark("run", study, place, "--dry-run", "--json").stdout)
    assert {"workers": 1, "tool": "dd"} in facts["settings"]
    assert {"workers": 4, "tool": "dd"} not in facts["settings"]


def test_a_tool_that_is_not_here_is_an_error_before_anything_is_written(
    savemark, study, place, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    for words in ((), ("--dry-run",)):
        done = savemark("run", study, place, "--out", "out", *words)
        assert (done.returncode, "dd is not on PATH" in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "out").exists()


CELLS = [{"part": p, "n": n, "tool": t} for p in "ab" for n in (1, 2, 3) for t in ("savemark", "x")]
HERE = SimpleNamespace(cells=lambda: CELLS, own=lambda cell: {})


def refusals(*cells, values=("same",)):
    texts = list(values) * len(cells) if len(values) == 1 else values
    return [
        Refusal("here", cell, Inexpressible(f"n={text}", "do", "n at all"), "trial")
        for cell, text in zip(cells, texts, strict=True)
    ]


@pytest.mark.parametrize(
    ("numbers", "rules"),
    [
        ([1, 2, 3], [{"part": "a", "tool": "x"}]),
        ([2, 3], [{"part": "a", "n": [2, 3], "tool": "x"}]),
        ([2], [{"part": "a", "n": 2, "tool": "x"}]),
    ],
)
def test_the_rule_is_the_shortest_that_says_it(numbers, rules):
    found = inexpressible.missing(
        HERE, refusals(*({"part": "a", "n": n, "tool": "x"} for n in numbers))
    )
    assert [each.rule for each in found] == [{**rule, "target": "here"} for rule in rules]
    assert [each.cells for each in found] == [len(numbers)]
    assert {each.reason for each in found} == {"n=same"}


def test_one_reason_for_several_values_names_none_of_them():
    cells = [{"part": "a", "n": n, "tool": "x"} for n in (1, 2)]
    (found,) = inexpressible.missing(HERE, refusals(*cells, values=("1", "2")))
    assert (found.reason, found.hint) == ("n at all", "do")


def test_where_no_rule_fits_each_setting_has_its_own():
    crossed = [{"n": n, "m": m, "tool": "x"} for n in (1, 2) for m in (1, 2)]
    study = SimpleNamespace(cells=lambda: crossed, own=lambda cell: {})
    found = inexpressible.missing(study, refusals(crossed[0], crossed[3]))
    assert [each.rule for each in found] == [
        {**cell, "target": "here"} for cell in (crossed[0], crossed[3])
    ]
    assert [each.cells for each in found] == [1, 1]


def test_a_tool_is_useless_only_if_it_can_do_nothing_anywhere():
    cells = [cell for cell in CELLS if cell["tool"] == "x"]
    assert inexpressible.useless(HERE, ["here"], refusals(*cells)).cell == cells[0]
    assert inexpressible.useless(HERE, ["here"], refusals(*cells[1:])) is None
    assert inexpressible.useless(HERE, ["here", "there"], refusals(*cells)) is None


def test_a_line_that_is_drawn_is_not_what_a_tool_said(tmp_path):
    ended = child.Ended(134, 0, 1, 0, 0)
    error = child.failure("ior", ended, "It has crashed.\n-------\n\n", tmp_path)
    assert error.message == "ior was killed by signal 6: It has crashed."
    assert "it said nothing" in child.failure("ior", ended, "-----\n", tmp_path).message
