"""`savemark crosscheck`: the engine and the tools that are here, side by side."""

import json
import subprocess

import pytest

import foreign
from savemark.errors import SavemarkError

MIB = 1 << 20


@pytest.fixture
def savemark(start):
    def savemark(*words):
        process = start(*words)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    return savemark


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
    assert not list(place.iterdir())
    again = savemark("report", "out/sequential")
    assert again.returncode == 0, "each part is a run of its own"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tool", "warp"], "warp"),
        (["--tool", "fioo"], "`fio`"),
        (["--only", "sideways"], "sequential"),
        (["--size", "4kB"], "KiB"),
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
        return agreement._Sample(tuple(base + n / 1e3 for n in range(8)), "B", 1e-6)

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


def test_a_target_in_memory_has_no_direct_io(monkeypatch, tmp_path):
    from savemark.run import crosscheck
    from savemark.run.target import Target

    monkeypatch.setattr(crosscheck.engine, "host", lambda path: '{"target": {"class": "memory"}}')
    assert crosscheck._storage("queued", Target("x", tmp_path)) == {
        "storage": "posix",
        "direct": False,
    }


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


def test_nothing_to_compare_with_is_told(tmp_path):
    from savemark.run import crosscheck
    from savemark.run.target import Target

    wanted = crosscheck.Wanted(Target("x", tmp_path), ["aws"], (), MIB, 1)
    with pytest.raises(SavemarkError, match="aws cannot measure"):
        crosscheck.parts(wanted)
