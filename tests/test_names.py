"""One setting has one name, and its factors are those of its study."""

from __future__ import annotations

import gc
import json
import sys

import pytest

from made_run import Made, make_run
from savemark.records import phases, read_run
from savemark.records.naming import setting
from savemark.study.plan import Entry

TINY = Made(codecs=("zstd",), streams=(4,), repeats=2)


def _with(folder, **more):
    """The run with other factors in each trial."""
    for name in ("run.json", "records.jsonl"):
        text = (folder / name).read_text()
        for old, new in more.items():
            text = text.replace(f'"{old}"', f'"{new}"')
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("factors", "name"),
    [
        ({"codec": "zstd", "streams": 4, "transfer_size": 65536}, "zstd × 4, transfer_size 64KiB"),
        ({"streams": 0, "codec": None}, "none × 0"),
        ({"part": "write", "queue_depth": 8}, "write, queue_depth 8"),
        ({"transfer_size": [4096, 65536]}, "transfer_size 4KiB|64KiB"),
    ],
)
def test_progress_and_report_call_a_setting_the_same(factors, name):
    assert setting(factors) == name
    assert Entry(0, "a", "trial", "checkpoint", 0, factors).setting == name
    several = Entry(0, "a", "trial", "checkpoint", 0, {"target": "a", **factors})
    assert several.setting == f"{name} on a"


def test_the_records_call_it_so_too(tmp_path):
    folder = _with(make_run(tmp_path, TINY), streams="transfer_size")
    frame = phases(read_run(folder))
    names = frame.filter(frame["role"] == "trial")["setting"].unique().to_list()
    assert names == [setting({"codec": "zstd", "transfer_size": 4})]


def test_advice_names_the_factors_of_the_study(tmp_path, capsys):
    from savemark import cli

    folder = _with(make_run(tmp_path, TINY), codec="layout", streams="queue_depth")
    with pytest.raises(SystemExit):
        cli.main(["advise", "--json", "--goal", "freeze", str(folder)])
    sys.stdout.flush()
    (target,) = json.loads(capsys.readouterr().out)["targets"]
    assert target["best"]["freeze"]["factors"] == {"layout": "zstd", "queue_depth": 4}


@pytest.mark.parametrize("on", [True, False])
def test_reading_leaves_the_collector_as_it_was(on, tmp_path):
    run = read_run(make_run(tmp_path, TINY))
    was = gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        phases(run)
        assert gc.isenabled() is on
    finally:
        (gc.enable if was else gc.disable)()
