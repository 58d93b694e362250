"""`savemark crosscheck`: the engine and the tools that are here, side by side."""

import json
import re
from types import SimpleNamespace

import pytest

import foreign
from made_run import Made, make_run
from savemark.errors import SavemarkError
from test_checks import change

MIB = 1 << 20


@pytest.fixture
def savemark(to_its_end):
    return to_its_end


def test_a_directory_is_crosschecked(savemark, place, tmp_path):
    foreign.need("fio", "dd")
    words = ["--tool", "fio,dd", "--only", "sequential", "--size", "8m", "--repeats", "2"]
    done = savemark("crosscheck", place, *words, "--out", "out", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (sequential,) = found["parts"]
    order = [(row["phase"], row["tool"]) for row in sequential["rows"]]
    assert set(order) == {(w, t) for w in ("read", "write") for t in ("savemark", "fio", "dd")}
    assert order[0][1] == order[3][1] == "savemark", "each phase begins with what is compared"
    for row in sequential["rows"]:
        assert row["n"] == 2
        assert row["cpu_s_per_operation"] > 0
        assert row["tool"] == "savemark" or row["verdict"] == "too few repeats to tell"
    assert {"fio", "dd"} <= set(found["versions"])
    said = (tmp_path / "out" / "crosscheck.md").read_text()
    assert "| write | dd |" in said
    assert "--repeats" in said, "how many would be enough"
    assert "huge pages False" in said, "the same memory"
    assert "on pages of" not in said
    of_process = r"\* dd \(\d\.\d\d s to print its version\): the time is that of the process"
    assert re.search(of_process, said), "why it may disagree"
    assert "part 1 of 1: sequential" in done.stderr
    assert not list(place.iterdir())
    again = savemark("report", "out/sequential")
    assert again.returncode == 0, "each part is a run of its own"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tool", "warp"], "warp"),
        (["--tool", "fioo"], "`fio`"),
        (["--only", "sideways"], "sequential"),
        (["--size", "4kb"], "KiB"),
    ],
)
def test_what_cannot_be_crosschecked_is_told(savemark, place, words, said):
    done = savemark("crosscheck", place, *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert not list(place.iterdir())


def test_a_folder_that_is_full_is_left_alone(savemark, place, tmp_path):
    foreign.need("dd")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    done = savemark("crosscheck", place, "--tool", "dd", "--out", "out")
    assert (done.returncode, "is not empty" in done.stderr) == (2, True)


def test_a_difference_that_repeats_show_is_told(monkeypatch):
    """Samples apart and samples mixed, through the statistics of every comparison."""
    from savemark.report import agreement

    def sample(base):
        return agreement._Sample(tuple(base + n / 1e3 for n in range(8)), "B", 1e-6, 0.25)

    samples = {("savemark", "write"): sample(1.0), ("fio", "write"): sample(1.0005)}
    samples[("dd", "write")] = sample(2.0)
    pairs = {}
    for each in agreement._paired([samples]):
        pairs |= each
    rows = {row.tool: row for row in agreement._rows(0, samples, pairs)}
    assert agreement.WORDS[rows["fio"].pair.verdict] == "tied"
    assert rows["dd"].pair.verdict == "slower"
    line = [datum.text for datum in agreement._line(rows["dd"]).data]
    assert "0.50" in line, "half the rate"
    assert line[-1] == "0.25", "three quarters never reached the disk"


def test_other_memory_is_noted_under_the_table(tmp_path):
    from savemark.records import read_run
    from savemark.report import agreement

    folder = make_run(tmp_path, Made(codecs=("none", "zstd"), streams=(4,), repeats=2))
    assert agreement._notes(read_run(folder)) == []

    def beside_dd(entry, _phase):
        entry["record"]["trial"] |= {"transfer_size": MIB, "huge_pages": True}
        if entry["factors"].get("codec") == "zstd":
            entry["record"]["tool"] = {"name": "dd", "version": "9.1"}

    change(folder, beside_dd)
    (said,) = agreement._notes(read_run(folder))
    assert "pages of 2 MiB, that of dd on pages of 4 KiB" in said


def test_a_target_in_memory_has_no_direct_io(monkeypatch, tmp_path):
    from savemark.run import crosscheck
    from savemark.run.target import Target

    monkeypatch.setattr(crosscheck.engine, "host", lambda path: '{"target": {"class": "memory"}}')
    assert crosscheck._storage("queued", Target("x", tmp_path)) == {
        "storage": "posix",
        "direct": False,
    }


def test_each_part_has_a_time_left_of_its_own(monkeypatch):
    from savemark.cli import _display

    monkeypatch.setattr(_display, "header", lambda forecast: "")
    entry = SimpleNamespace(role="trial", factors={}, label="", name="x", setting="x", repeat=0)
    forecast = SimpleNamespace(seconds=10.0, study=SimpleNamespace(ceilings={}, race=None))
    shown = _display.Display()
    for _ in range(2):
        shown.announce(forecast, [entry, entry])
        assert shown._left_s() == 10
        for _ in range(2):
            shown.finished(entry, {"error": None, "record": None})
        assert shown._left_s() == 0


def test_one_reason_is_said_once():
    from savemark.report import agreement

    refused = {"aws": "aws cannot measure /x", "warp": "warp cannot measure /x"}
    refused |= {"elbencho write": "elbencho cannot express sync=end: it never syncs a file"}
    part = agreement.Part("sequential", None, [], refused, [])
    assert agreement._left_out(part) == [
        "left out: aws, warp cannot measure /x",
        "left out: elbencho cannot express sync=end: it never syncs a file",
    ]


def test_a_tool_is_left_out_of_what_it_cannot_do(tmp_path):
    from savemark.run import crosscheck
    from savemark.run.target import Target

    wanted = crosscheck.Wanted(Target("x", tmp_path), ["fio", "dd", "elbencho"], (), MIB, 1)
    parts = {part.name: part for part in crosscheck.parts(wanted)}
    assert parts["random"].study.factors["tool"] == ["savemark", "fio", "elbencho"]
    assert "workload=random" in parts["random"].refused["dd"]
    assert parts["sequential"].study.exclude == [{"operation": "write", "tool": "elbencho"}]
    assert "sync=end" in parts["sequential"].refused["elbencho write"]
    assert "elbencho" in parts["metadata"].study.factors["tool"]
    for layout in ("shared_file", "file_per_process"):
        assert parts[layout].study.factors["tool"] == ["savemark", "elbencho"]
        assert parts[layout].study.trial["block_size"] == MIB, "at least one transfer"


def test_nothing_to_compare_with_is_told(tmp_path):
    from savemark.run import crosscheck
    from savemark.run.target import Target

    wanted = crosscheck.Wanted(Target("x", tmp_path), ["aws"], (), MIB, 1)
    with pytest.raises(SavemarkError, match="aws cannot measure"):
        crosscheck.parts(wanted)


def test_what_a_check_forbids_is_not_compared_unless_asked_for(savemark, place, tmp_path):
    foreign.need("dd")
    words = ["--tool", "dd", "--only", "unsynced", "--size", "8m", "--repeats", "2"]
    done = savemark("crosscheck", place, *words, "--out", "out", "--json")
    assert done.returncode == 0, done.stderr
    from savemark.report import agreement

    def read(**how):
        (part,) = agreement.read(tmp_path / "out", **how)
        return {row.tool for row in part.rows}, "\n".join(part.notes)

    assert read()[0] == {"savemark", "dd"}
    head = tmp_path / "out" / "unsynced" / "run.json"
    run = json.loads(head.read_text())
    run["study"]["checks"]["HC-13"]["block_below"] = 9
    head.write_text(json.dumps(run))
    tools, notes = read()
    assert not tools
    assert "not compared: savemark write, dd write: HC-13 forbids the numbers" in notes
    assert read(show_blocked=True)[0] == {"savemark", "dd"}
