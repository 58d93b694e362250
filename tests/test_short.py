"""Phases under a second: blocked, and then shown nowhere, unless a study or a reader says so."""

import csv
import io
import json

import pytest

from made_run import Made, make_run
from savemark import report
from savemark.checks import Verdict
from savemark.checks.length import LONGER
from savemark.report.analysis import analyse
from savemark.study.keys import Keys
from savemark.study.load import load
from savemark.study.shipped import find
from test_checks import change

SMALL = {"codecs": ("none", "gzip"), "streams": (4,), "repeats": 8, "size": 2**28}
# gzip takes seconds for what the disk takes an eighth of one for.
FAST = {("scratch", "none × 4", "save"), ("scratch", "none × 4", "restore")}


def make(folder, checks=None, **what):
    """A run whose study says nothing about short phases, or what `checks` says."""
    make_run(folder, Made(**{**SMALL, **what}))
    head = json.loads((folder / "run.json").read_text())
    head["study"]["checks"] = {"HC-13": checks} if checks else {}
    (folder / "run.json").write_text(json.dumps(head))
    return folder


@pytest.fixture
def short(tmp_path):
    return make(tmp_path / "short")


def long_enough(folder):
    return next(f for f in analyse(folder).findings if f.id == "HC-13")


def test_what_took_less_than_a_second_is_blocked_and_the_fix_named(short):
    found = long_enough(short)
    assert found.verdict is Verdict.BLOCK
    assert set(found.blocks) >= FAST
    assert ("scratch", "gzip × 4", "save") not in found.blocks
    assert "shorter than 1 s (save of none × 4; restore of" in found.evidence
    assert "use --size 3GiB" in found.fix or "use --size 2GiB" in found.fix
    assert "`checks: {HC-13: {block_below: 0}}`" in found.fix
    state, words = analyse(short).badge
    assert state == "invalid"
    assert words == "invalid: HC-13 phases are too short to be a measurement"


@pytest.mark.parametrize(
    ("workloads", "said"),
    [
        (["metadata"], "use more --items."),
        (["shared_file", "file_per_process"], "use more --segments."),
        (["checkpoint", "metadata"], "Where that is no option, use more --items."),
    ],
)
def test_the_fix_names_options_that_the_workload_has(short, workloads, said):
    def another(entry, _phase):
        entry["record"]["trial"]["workload"] = workloads[entry["index"] % len(workloads)]

    change(short, another)
    fix = long_enough(short).fix
    assert said in fix
    assert ("--size" in fix) is ("checkpoint" in workloads)


def test_a_study_can_allow_it_and_the_finding_says_so(tmp_path):
    found = long_enough(make(tmp_path / "allowed", {"block_below": 0}))
    assert found.verdict is Verdict.FLAG
    assert "shorter than 1 s, which this study allows" in found.evidence
    assert "The study sets block_below = 0." in found.evidence
    # Long enough is what the study says; a limit above it blocks nothing that is long enough.
    assert long_enough(make(tmp_path / "brief", {"seconds": 0.01})).verdict is Verdict.OK
    strict = long_enough(make(tmp_path / "strict", {"block_below": 8}))
    assert len(strict.blocks) > 2


@pytest.mark.parametrize("name", ["grid", "checkpoint-restore"])
def test_the_shipped_studies_state_their_bargain(name):
    file = find(name)
    assert load(file, Keys.load()).checks == {"HC-13": {"block_below": 0}}
    assert "bargain" in file.read_text(encoding="utf-8")


def test_no_rendering_tells_a_blocked_time(short, run, tmp_path):
    hidden = (
        analyse(short, show_blocked=True).frame.filter(setting="none × 4")["elapsed_ns"].to_list()
    )
    page = report.build(short).read_text(encoding="utf-8")
    texts = [page, run("report", short)[1], run("report", "--json", short)[1]]
    texts += [run("export", short, "--format", form)[1] for form in ("csv", "json")]
    texts += [path.read_text() for path in (short / "tables").iterdir()]
    for text in texts:
        assert not [ns for ns in hidden if str(ns) in text]
    rows = list(csv.DictReader(io.StringIO(run("export", short)[1])))
    blocked = [row for row in rows if row["blocked_by"]]
    assert {(r["label"], r["setting"], r["phase"]) for r in blocked} >= FAST
    assert {row["role"] for row in blocked} == {"trial"}
    assert all(row["elapsed_ns"] == row["latency_p50_ns"] == "" for row in blocked)
    assert all(row["user_bytes"] and row["started_unix_ns"] for row in blocked)
    assert all(row["elapsed_ns"] for row in rows if not row["blocked_by"])
    shown = run("export", "--show-blocked", short)[1]
    assert all(str(ns) in shown for ns in hidden)


def test_compare_and_gate_leave_it_out_unless_asked(short, run, tmp_path):
    other = make(tmp_path / "other", seed=9)
    out = run("compare", short, other)[1]
    assert "left out of A, blocked by HC-13: none × 4 · save" in " ".join(out.split())
    facts = json.loads(run("compare", "--show-blocked", short, other, "--json")[1])
    (second,) = facts["others"]
    assert "none × 4" in {cell["setting"] for cell in second["cells"]}
    assert {each["check"] for each in second["shown_although_blocked"]} == {"HC-13"}
    out = run("compare", "--show-blocked", short, other)[1]
    assert "HC-13 forbids, shown because of --show-blocked" in " ".join(out.split())

    code, out, _ = run("gate", other, "--baseline", short)
    assert code == 0
    assert "none × 4 save" not in " ".join(out.split())
    code, out, _ = run("gate", "--show-blocked", other, "--baseline", short)
    assert "none × 4 save" in " ".join(out.split())
    assert "HC-13 forbids, shown because of --show-blocked" in " ".join(out.split())


def test_a_run_of_nothing_but_moments_says_what_to_do(tmp_path, run):
    two = [make(tmp_path / name, codecs=("none",), seed=i) for i, name in enumerate("ab")]
    code, _, err = run("compare", *two)
    assert code == 2
    assert "nothing to compare: blocked by HC-13" in err
    assert "--show-blocked" in err
    assert run("compare", "--show-blocked", *two)[0] == 0
    code, _, err = run("gate", two[1], "--baseline", two[0])
    assert code == 2
    assert "blocked by HC-13" in err


def test_a_workload_without_a_size_says_what_makes_it_longer():
    keys = Keys.load()
    without = {name for name in keys.workloads if "size" not in keys.accepted(name, None)}
    assert without == set(LONGER)
