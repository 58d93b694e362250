"""What a report says of several ranks: the check of their start, the table, the figure."""

import json

import pytest

from made_run import Made, make_run
from savemark import report
from savemark.checks import Verdict
from savemark.records import phases, read_run
from savemark.records.ranked import ranks
from test_checks import change, judge

SMALL = {"codecs": ("none", "zstd"), "streams": (0, 4), "repeats": 3}
NODES = ["fast", "slow"]


@pytest.fixture
def folder(tmp_path):
    return make_run(tmp_path / "run", Made(**SMALL))


def ranked(skew=0.001, error=0.0001, slow=1.0, count=4):
    """Makes every trial one of several ranks, half of them on a node that may be slower."""

    def edit(entry, phase):
        if entry["role"] != "trial":
            return
        nodes = [2 * rank // count for rank in range(count)]
        done = phase["elapsed_ns"]
        times = [int(done * (slow if node else 1.0)) for node in nodes]
        share = phase["user_bytes"] // count
        lines = {"node": nodes, "last_done_ns": times, "first_done_ns": times}
        lines |= {"user_bytes": [share] * count, "operations": [9] * count}
        phase["ranks"] = {"of": count, **lines, "started_ns": [0] * count}
        phase["nodes"] = {"of": 2, "node": [0, 1], "ranks": [count // 2] * 2}
        phase["start_skew_ns"] = int(skew * done)
        phase["clock_error_ns"] = int(error * done)
        phase["worker_count"], phase["workers"] = count, []
        entry["record"]["nodes"] = NODES

    return edit


@pytest.mark.parametrize(
    ("edit", "verdict", "word"),
    [
        (lambda *_: None, Verdict.OK, "one process"),
        (ranked(), Verdict.OK, "0.1 %"),
        (ranked(skew=0.05), Verdict.FLAG, "5.0 % of"),
        (ranked(error=0.02), Verdict.FLAG, "to within 2.0 %"),
    ],
)
def test_ranks_start_together(folder, edit, verdict, word):
    change(folder, edit)
    found = judge(folder)["HC-28"]
    assert found.verdict is verdict and word in found.evidence, found.evidence


def test_without_times_of_the_start_nothing_is_said(folder):
    change(folder, ranked())
    change(folder, lambda _, phase: phase.pop("start_skew_ns", None))
    assert judge(folder)["HC-28"].verdict is Verdict.UNVERIFIED


def test_a_study_can_allow_more(folder):
    change(folder, ranked(skew=0.05))
    head = json.loads((folder / "run.json").read_text())
    head["study"]["checks"]["HC-28"] = {"share": 0.1}
    (folder / "run.json").write_text(json.dumps(head))
    assert judge(folder)["HC-28"].verdict is Verdict.OK


def test_workers_on_other_nodes_do_not_crowd_this_one(folder):
    def crowd(nodes):
        def edit(entry, phase):
            ranked()(entry, phase)
            if "nodes" in phase:
                phase["nodes"]["of"], phase["worker_count"] = nodes, 100

        return edit

    change(folder, crowd(1))
    assert judge(folder)["HC-26"].verdict is Verdict.FLAG
    change(folder, crowd(2))
    assert judge(folder)["HC-26"].verdict is Verdict.OK


def test_a_slow_node_is_named_in_table_and_figure(folder):
    change(folder, ranked(slow=1.5))
    rows = ranks(read_run(folder))
    # Four ranks in two phases of four settings, three times.
    assert len(rows) == 4 * 2 * 4 * 3 and set(rows["node"]) == set(NODES)
    frame = phases(read_run(folder))
    assert set(frame.filter(frame["role"] == "trial")["rank_count"]) == {4}
    page = report.build(folder)
    text = (folder / "report.md").read_text()
    line = next(
        line for line in text.splitlines() if line.startswith("| scratch | none × 0 | save")
    )
    assert "| 2 on slow | 1.20 | slow | 1.20 |" in line, line
    assert (folder / "figures" / "ranks.svg").exists()
    html = page.read_text()
    assert "Time of each rank" in html and "rank 3 on slow: 1.20 × the median rank" in html


def test_even_ranks_are_not_called_slow(folder):
    change(folder, ranked())
    report.build(folder)
    text = (folder / "report.md").read_text()
    line = next(
        line for line in text.splitlines() if line.startswith("| scratch | none × 0 | save")
    )
    assert "| – | 1.00 | – | 1.00 |" in line, line


def test_a_run_of_one_process_has_neither(folder):
    report.build(folder)
    assert "## Ranks" not in (folder / "report.md").read_text()
    assert not (folder / "figures" / "ranks.svg").exists()
    assert ranks(read_run(folder)).is_empty()
