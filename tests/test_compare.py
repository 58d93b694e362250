"""`savemark compare`: the same cells found, the differences told, no claim without repeats."""

import json

import pytest

from made_run import Made, make_run
from savemark.records import read_run
from savemark.records.contract import differences
from savemark.stats.cells import Key
from savemark.stats.pairs import Times, compare

FEW = {"codecs": ("none", "zstd"), "streams": (0, 4)}


@pytest.fixture
def made(tmp_path):
    def make(name, **what):
        return make_run(tmp_path / name, Made(**{**FEW, "repeats": 8, **what}))

    return make


def cells(*seconds, size=100):
    return {Key("", str(i), "save"): Times(tuple(each), size) for i, each in enumerate(seconds)}


STEADY = (1.00, 1.01, 1.02, 1.03, 1.04, 1.05)
SLOW = tuple(1.2 * s for s in STEADY)


def test_pairs_are_tested_and_corrected_over_all_runs():
    (one,) = compare(cells(STEADY), [cells(SLOW)])
    assert one[0].p == pytest.approx(2 / 924)
    assert one[0].ratio.value == pytest.approx(1.2)
    assert one[0].difference.value == pytest.approx(0.2 * 1.025)
    assert one[0].verdict == "slower"
    both = compare(cells(STEADY, STEADY), [cells(SLOW, STEADY), cells(STEADY, SLOW)])
    flat = [pair for each in both for pair in each]
    assert [pair.verdict for pair in flat] == ["slower", *["not told apart"] * 2, "slower"]
    assert flat[0].p_adjusted == pytest.approx(4 * 2 / 924)
    assert compare(cells(SLOW), [cells(STEADY)])[0][0].verdict == "faster"


def test_too_few_repeats_claim_nothing():
    (one,) = compare(cells(STEADY[:3]), [cells(SLOW[:3])])
    assert one[0].verdict == "too few repeats"
    assert one[0].ratio.low is None


def test_another_size_is_scaled_per_byte():
    (one,) = compare(cells(STEADY), [cells([2 * s for s in STEADY], size=200)])
    assert one[0].ratio.value == pytest.approx(1)
    assert one[0].verdict == "not told apart"


def test_a_slower_disk_is_found_and_printed_with_its_base(made, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    code, out, err = run("compare", made("a"), made("b", targets={"scratch": 0.8}, seed=9))
    assert (code, err) == (0, "")
    assert "B against A: 8 cells: " in " ".join(out.split())
    assert "none × 4 save" in " ".join(out.split())
    assert "slower" in out
    assert "…" not in out, "no column is cut off where the terminal is narrow"
    facts = json.loads(run("compare", made("a"), made("b"), "--json")[1])
    (other,) = facts["others"]
    assert other["differences"] == []
    assert facts["tests"] == len(other["cells"]) == 8
    assert {"ratio", "difference_s", "p_adjusted", "base_s_median"} <= set(other["cells"][0])


def test_two_places_are_compared_and_three_runs_too(made, run):
    a, b = made("a"), made("b", targets={"elsewhere": 1.0}, seed=5)
    c = made("c", codecs=("none",), seed=6)
    code, out, _ = run("compare", a, b, c)
    assert code == 0
    assert "B against A: 8 cells: 8 not told apart" in out
    assert "C against A: 4 cells" in out
    assert "only in A: zstd" in out


def test_labels_are_kept_apart_where_a_run_has_several_targets(made, run):
    a = made("a", targets={"x": 1.0, "y": 0.5})
    facts = json.loads(run("compare", a, made("b", targets={"x": 1.0, "y": 0.5}), "--json")[1])
    assert {cell["label"] for cell in facts["others"][0]["cells"]} == {"x", "y"}
    code, _, err = run("compare", a, made("c"))
    assert code == 2
    assert "share no cell" in err
    assert "LABEL=TARGET" in err


def test_hosts_contracts_and_versions_that_differ_are_said(made, run):
    a = made("a")
    b = made("b", size=2**30, cores=8, warm=True)
    head = json.loads((b / "run.json").read_text())
    head["savemark_version"] = "0.2.0"
    head["host"]["kernel_release"] = "6.9"
    (b / "run.json").write_text(json.dumps(head))
    lines = (b / "records.jsonl").read_text().replace('"direct": true', '"direct": false')
    (b / "records.jsonl").write_text(lines.replace('"durable": true', '"durable": false'))
    found = {(d.kind, d.what): (d.base, d.other) for d in differences(read_run(a), read_run(b))}
    assert found["contract", "size"] == (str(2**31), str(2**30))
    assert found["contract", "direct I/O"] == ("yes", "no")
    assert found["contract", "save durable"] == ("yes", "no")
    assert found["contract", "restore cache"] == ("cold", "warm")
    assert found["host", "usable cores"] == ("4", "8")
    assert found["host", "kernel"] == ("6.8.0-31-generic", "6.9")
    assert found["version", "savemark"] == ("0.1.0", "0.2.0")
    assert not [kind for kind, _ in found if kind == "option"]

    out = run("compare", a, b)[1]
    flat = " ".join(out.split())
    assert "size: 2 GiB → 1 GiB" in flat
    assert "scaled to the size of A" in flat
    assert "left out of B, blocked by HC-05" in flat
    text = run("compare", a, b, "--markdown")[1]
    assert "* **contract**: restore cache was cold, is warm" in text
    assert "| setting | phase |" in text


def test_few_repeats_are_said_with_what_would_do(made, run):
    out = run("compare", made("a", repeats=3), made("b", repeats=3, seed=4))[1]
    assert "8 too few repeats" in out
    assert "--repeats 6 in each run is enough" in " ".join(out.split())
    assert "–" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{a}"], "needs two runs"),
        (["{a}", "{a}"], "named twice"),
        (["{a}", "/nowhere"], "not a run folder"),
        (["{a}", "{empty}"], "nothing to compare"),
        (["{a}", "{a}", "--json", "--markdown"], "exclude each other"),
        (["{a}"] * 27, "too many"),
    ],
)
def test_wrong_questions_are_usage_errors(made, run, words, message):
    a, empty = made("a"), made("empty", stop_after=0)
    code, out, err = run("compare", *(word.format(a=a, empty=empty) for word in words))
    assert code == 2
    assert message in (err or out)
