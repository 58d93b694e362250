"""Studies of the workloads that are no checkpoints, from the file to the report."""

import json
import subprocess
import sys

import pytest

from savemark.study.cost import Rates, Storage, cost

STUDIES = {
    "metadata": """
name: names
title: How many small files a second?
repeats: 2
defaults: {storage: posix, direct: false}
trial: {workload: metadata, items: 60, file_size: 3901}
factors: {workers: [1, 2], shared: [false, true]}
""",
    "iterate": """
name: policies
title: What does each policy cost?
repeats: 2
defaults: {storage: posix, direct: false}
trial: {workload: iterate, side: 64, iterations: 6, every: 2}
factors: {policy: [none, fsync_leader, rename], workers: [1, 2]}
""",
}


@pytest.mark.parametrize("workload", STUDIES)
def test_a_study_of_it_runs_and_is_reported(tmp_path, workload):
    (tmp_path / "study.yaml").write_text(STUDIES[workload])
    (tmp_path / "s").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "savemark", "run", "./study.yaml", "./s", "--out", "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "s").iterdir())
    entries = [json.loads(x) for x in (tmp_path / "run" / "records.jsonl").read_text().splitlines()]
    assert len(entries) == 2 * {"metadata": 4, "iterate": 6}[workload]
    assert all(entry["record"]["path"]["direct"] is False for entry in entries)
    checks = {
        x.split(",")[0] for x in (tmp_path / "run/tables/checks.csv").read_text().splitlines()
    }
    assert "HC-26" in checks
    page = (tmp_path / "run" / "report.html").read_text()
    assert "no byte was moved" not in page, "every phase did something"


def test_what_they_will_take_is_estimated():
    rates = Rates(cores=2, storages={("here", "posix"): Storage(save=1e9, restore=1e9)})
    names = {"workload": "metadata", "items": 1000, "file_size": 3901}
    some = cost(names, "here", rates)
    assert (some.written, some.held) == (3901e3, 4096e3)
    assert cost({**names, "sync": "each"}, "here", rates).seconds > 10 * some.seconds
    ended = cost({**names, "items": 10**9, "phase_deadline": 2.0}, "here", rates)
    assert ended.seconds < 11
    solver = {"workload": "iterate", "storage": "posix", "side": 512, "workers": 2}
    solver |= {"iterations": 100, "every": 10, "layout": "rows", "policy": "fsync_leader"}
    central = cost(solver, "here", rates)
    assert central.written == 10 * 512 * 512 * 8
    each = cost({**solver, "policy": "fsync_each"}, "here", rates)
    assert each.seconds > 50 * central.seconds
