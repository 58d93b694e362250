"""IO500: our own run of it, its files, its own program, and what it will take."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import foreign
from needs import missing
from savemark.errors import SavemarkError
from savemark.records import io500 as format_
from savemark.records.io500 import PHASES
from savemark.records.phase import Phase
from savemark.tools import io500 as reader
from savemark.tools.source import Source
from test_tools_run import stand_in

DATA = Path(__file__).parent / "data/io500"
MIB = 1 << 20
# Moments instead of minutes: everything there is, and as little of it as will do.
TINY = ("--workers", "2", "--phase-deadline", "1s", "--block-size", "32MiB", "--segments", "400")
TINY += ("--files-per-worker", "700", "--cache", "warm")


def savemark(*words, path=None):
    """Run the command in a process of its own, with the real engine."""
    return subprocess.run(
        [sys.executable, "-m", "savemark", *map(str, words)],
        capture_output=True,
        text=True,
        env=os.environ | ({"PATH": path} if path else {}),
        check=False,
    )


@pytest.fixture(scope="module")
def debug_run(tmp_path_factory):
    """A run of the study `io500` that is far too short, on a tmpfs."""
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("needs a tmpfs at /dev/shm")
    here = tmp_path_factory.mktemp("io500")
    place = Path("/dev/shm") / f"savemark-test-{os.getpid()}"
    place.mkdir()
    try:
        done = savemark("run", "io500", place, *TINY, "--out", here / "run")
        assert done.returncode == 0, done.stdout + done.stderr
        assert list(place.iterdir()) == [], "nothing is left"
    finally:
        shutil.rmtree(place)
    return done.stdout, here / "run"


def test_the_reader_can_be_what_is_loaded_first():
    subprocess.run([sys.executable, "-c", "import savemark.tools.io500"], check=True)


def test_a_debug_run_is_marked_and_its_score_is_that_of_its_phases(debug_run):
    printed, run = debug_run
    assert "[INVALID]" in printed and "phase_deadline is 1 s, the rules ask for 300" in printed
    said = json.loads(savemark("io500", run, "--json").stdout)[0]
    assert not said["valid"]
    assert any("phase_deadline is 1 s" in why for why in said["reasons"])
    assert any("mdtest-hard-write: it took" in why for why in said["reasons"])
    assert list(said["phases"]) == list(PHASES)
    rates = {name: line["rate"] for name, line in said["phases"].items()}
    bandwidths = [rate for name, rate in rates.items() if name.startswith("ior")]
    others = [rate for name, rate in rates.items() if not name.startswith("ior")]
    bandwidth, rate = math.prod(bandwidths) ** (1 / 4), math.prod(others) ** (1 / 8)
    assert said["bandwidth_gib_per_s"] == pytest.approx(bandwidth)
    assert said["rate_kiops"] == pytest.approx(rate)
    assert said["score"] == pytest.approx(math.sqrt(bandwidth * rate))
    line = json.loads((run / "records.jsonl").read_text().splitlines()[0])
    phases = {phase["name"]: phase for phase in line["record"]["phases"]}
    easy = phases["ior-easy-read"]
    gib = easy["user_bytes"] / 2**30
    assert rates["ior-easy-read"] == pytest.approx(gib / (easy["elapsed_ns"] / 1e9))
    files = [phases[f"mdtest-{part}-write"]["operations"] for part in ("easy", "hard")]
    assert phases["find"]["operations"] == 2 + 1 + sum(files)


def test_the_files_of_a_debug_run_are_read_by_our_reader_and_by_the_lists_own(debug_run):
    _, run = debug_run
    for name in ("result.txt", "result_summary.txt"):
        source = Source.of(run / "io500/00000" / name)
        assert reader.recognises(source)
        entries = reader.parse(source).entries
        records = [entry["record"] for entry in entries]
        assert all(phase["arithmetic"] is None for each in records for phase in each["phases"])
        assert {each["source"]["valid"] for each in records} == {False}
        assert sum(len(each["phases"]) for each in records) == 12
    found = reader.read(Source.of(run / "io500/00000/result.txt"))
    assert found.ranks == 2 and "rules ask for 300" in found.invalid["ior-easy-write"]
    assert "find" not in found.invalid, "what keeps the rules is not marked"
    # As the site of the lists takes a submission apart.
    text = (run / "io500/00000/result_summary.txt").read_text()
    line = re.compile(r"\[.*\]\s*(\S*)\s*(\S*)\s*(\S*)\s*:\s*time\s*(\S*)\s*seconds")
    assert [m[1] for m in line.finditer(text) if m[1] != "timestamp"] == list(PHASES)
    total = re.search(
        r"\[.*\]\s*(\S*)\s*(\S*)\s*(\S*)\s*:\s*(\S*)\s*(\S*)\s*(\S*)\s*:\s*(\S*)\s*(\S*)", text
    )
    assert total.group(1, 4, 7) == ("Bandwidth", "IOPS", "TOTAL")
    assert float(total[8]) == pytest.approx(found.score[2], abs=1e-6)


def test_the_official_validator_accepts_the_files(debug_run):
    if not shutil.which("io500-verify"):
        missing("io500-verify", "it is not on PATH")
    folder = debug_run[1] / "io500/00000"
    files = [str(folder / "config.ini"), str(folder / "result.txt")]
    done = subprocess.run(["io500-verify", *files], capture_output=True, text=True, check=False)
    assert "[OK] But this is an invalid run!" in done.stdout and "ERROR" not in done.stdout
    forged = folder.parent / "forged.txt"
    text = (folder / "result.txt").read_text()
    forged.write_text(re.sub(r"^(score +=) ", r"\1 9", text, count=1, flags=re.MULTILINE))
    words = ["io500-verify", files[0], str(forged)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "ERROR: Score hash" in done.stdout


def test_the_report_has_the_twelve_lines_and_says_why_they_do_not_count(debug_run):
    _, run = debug_run
    page, text = (run / "report.html").read_text(), (run / "report.md").read_text()
    for name in PHASES:
        assert f">{name}<" in page and f"| {name} |" in text
    assert "the rules ask for 300" in page and "savemark&#39;s own engine" in page
    checks = {
        f["id"]: f for f in json.loads(savemark("check", run, "--json").stdout)[0]["findings"]
    }
    assert checks["HC-25"]["verdict"] == "FLAG" and "[INVALID]" in checks["HC-25"]["evidence"]
    assert checks["HC-38"]["verdict"] == "NOTE" and "--names cold" in checks["HC-38"]["fix"]


def lines(seconds=301.0, reasons=()):
    """Twelve lines, all alike."""
    return {name: format_.Line(2.0, seconds, reasons) for name in PHASES}


def test_the_checksums_are_those_of_the_official_program():
    source = Source.of(DATA / "result_2026.txt")
    found = reader.read(source)
    kept = {
        name: format_.Line(found.rates[name], found.seconds[name], ("short",)) for name in PHASES
    }
    outcome = format_.Outcome(found.version, 2, kept)
    assert f"hash            = {format_.score_hash(outcome):X}\n" in source.text
    changed = {
        "global": {
            "datadir": "/dev/shm/o500/data",
            "resultdir": "/tmp/o500res",
            "timestamp-datadir": "FALSE",
            "timestamp-resultdir": "FALSE",
        },
        "debug": {"stonewall-time": "1"},
        "ior-easy": {"blockSize": "1g"},
        "ior-hard": {"segmentCount": "20000"},
    }
    found_hash = format_.settings_hash(format_.settings(changed))
    assert f"config-hash     = {found_hash:X}\n" in source.text
    # A name that is not ASCII: its bytes count as signed.
    assert format_._hash([("datadir", "/mnt/ä")]) != format_._hash([("datadir", "/mnt/a")])


def test_a_valid_run_has_no_mark_and_another_checksum(tmp_path):
    good = format_.Outcome("x", 4, lines())
    bad = format_.Outcome("x", 4, lines(), ("it was paused",))
    assert good.valid and not bad.valid and format_.score_hash(good) != format_.score_hash(bad)
    for name, outcome in (("good", good), ("bad", bad)):
        format_.write(tmp_path / name, outcome, format_.settings({}), ["a note"])
        source = Source.of(tmp_path / name / "result.txt")
        assert (
            reader.parse(source).entries[0]["record"]["source"]["valid"] is True
        ) is outcome.valid
        assert "; a note" in source.text
    assert "[INVALID]" not in (tmp_path / "good/result_summary.txt").read_text()
    assert "ERROR INVALID it was paused" in (tmp_path / "bad/result.txt").read_text()
    assert format_.Outcome("x", 1, {"find": format_.Line(1.0, 1.0)}).score is None


def test_an_optional_phase_is_not_taken_for_one_of_the_twelve():
    found = reader.read(Source.of(DATA / "result_2026.txt"))
    assert set(found.rates) == set(PHASES)
    assert found.rates["mdtest-hard-delete"] == 54.747494


def phase(name, seconds=301.0, **more):
    return {"name": name, "elapsed_ns": round(seconds * 1e9), "durable": True, **more}


RULES = {"phase_deadline": 300.0, "verify": True}


@pytest.mark.parametrize(
    ("own", "trial", "said"),
    [
        (phase("ior-easy-write"), RULES, []),
        (phase("ior-easy-write", 299.0), RULES, ["it took 299.0 s, the rules ask for 300 s"]),
        (phase("find", 1.0), RULES, []),
        (phase("ior-hard-write", durable=False), RULES, ["not on stable storage"]),
        (phase("ior-easy-write"), RULES | {"phase_deadline": 600.0}, ["phase_deadline is 600 s"]),
        (phase("ior-easy-write"), RULES | {"verify": False}, ["was not compared"]),
        (phase("mdtest-easy-write", 5, invalid=["as it said"]), RULES, ["as it said"]),
    ],
)
def test_what_the_rules_ask_for(own, trial, said):
    found = format_.against(Phase(**own), trial)
    assert len(found) == len(said)
    assert all(words in why for words, why in zip(said, found, strict=True))


# IO500's own program.

TRIAL = {
    "workload": "io500",
    "storage": "posix",
    "direct": False,
    "payload": "random",
    "tool": "io500",
    "cache": "warm",
    "phase_deadline": 1,
    "workers": 2,
    "block_size": 32 * MIB,
    "segments": 400,
    "files_per_worker": 700,
}


def step(**options):
    from savemark import tools
    from savemark.study.keys import resolve
    from savemark.tools.job import Job

    trial = resolve({**TRIAL, **options}, "/mnt/x")
    return tools.command("io500").steps(Job.sketch(trial, "/mnt/x"))[0]


def test_the_settings_that_its_program_is_given():
    found = step(names="cold", cache="cold") if os.geteuid() == 0 else step()
    assert found.argv[-2:] == ("io500", "SCRATCH/io500.ini")
    assert found.argv[:4] == ("mpirun", "--oversubscribe", "-np", "2")
    ini = found.inputs["io500.ini"]
    for line in (
        "datadir = /mnt/x/data",
        "resultdir = SCRATCH/io500",
        "stonewall-time = 1",
        f"blockSize = {32 * MIB}",
        f"transferSize = {2 * MIB}",
        "segmentCount = 400",
        "dataPacketType = incompressible",
    ):
        assert f"\n{line}\n" in ini
    assert ini.count("\nn = 700\n") == 2
    assert ("drop-caches = TRUE" in ini) is (os.geteuid() == 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"storage": "uring"}, "storage=uring"),
        ({"direct": True}, "direct=true"),
        ({"verify": False}, "verify=false"),
        ({"cache": "cold"}, "cache=cold"),
        ({"phase_deadline": 1.5}, "phase_deadline=1.5"),
        ({"payload": "bf16"}, "payload=bf16"),
    ],
)
def test_what_its_program_cannot_do_is_refused_by_name(options, said):
    with pytest.raises(SavemarkError) as error:
        step(**options)
    assert error.value.kind == "usage"
    assert f"io500 cannot express {said}" in error.value.message and error.value.hint


# As the program: writes its results where its settings say, and removes its data.
PROGRAM = f"""
import re, shutil, sys
from pathlib import Path
settings = Path(sys.argv[-1]).read_text()
told = dict(re.findall("^([a-z-]+) = (.*)$", settings, re.M))
folder, data = Path(told["resultdir"]), Path(told["datadir"])
folder.mkdir()
text = Path({str(DATA / "result_2026.txt")!r}).read_text()
CHANGE
folder.joinpath("result.txt").write_text(text)
data.mkdir()
shutil.rmtree(data)
"""


def stood_in(place, folder, monkeypatch, change=""):
    stand_in(folder, monkeypatch, "io500", PROGRAM.replace("CHANGE", change))
    return foreign.run({**TRIAL, "workers": 1}, place, folder / "tools")


def test_its_program_is_one_process_with_twelve_phases(place, tmp_path, monkeypatch):
    record = stood_in(place, tmp_path, monkeypatch)
    found = foreign.phases(record)
    assert list(found) == list(PHASES)
    assert found["find"]["operations"] == round(43_780.955 * 2.6649)
    assert found["ior-easy-write"]["user_bytes"] == pytest.approx(
        0.473486 * 2**30 * 1.5742, rel=1e-6
    )
    assert "minimum runtime" in found["mdtest-hard-write"]["invalid"][0]
    assert found["find"]["invalid"] == []
    assert record["tool"]["version"] == "io500-isc26_v2-26-g02091cf254d8"
    assert (tmp_path / "tools/00000-0-io500-io500.ini").exists(), "its settings are kept"
    assert (tmp_path / "tools/00000-0-io500/result.txt").exists(), "and all its results"
    assert list(place.iterdir()) == []


def test_a_run_of_its_program_that_stopped_names_what_it_lacks(place, tmp_path, monkeypatch):
    cut = "text = text.split('[mdtest-hard-stat]')[0]"
    with pytest.raises(SavemarkError, match="without a result of mdtest-hard-stat, mdtest-easy"):
        stood_in(place, tmp_path, monkeypatch, cut)
    shutil.rmtree(tmp_path / "tools")
    with pytest.raises(SavemarkError, match="io500 ended with status 3"):
        stood_in(place, tmp_path, monkeypatch, "sys.exit(3)")
    shutil.rmtree(tmp_path / "tools")
    with pytest.raises(SavemarkError, match="reported nothing"):
        stood_in(place, tmp_path, monkeypatch, "sys.exit(0)")
    assert list(place.iterdir()) == []


def verdict(record, tmp_path, check):
    """What a check says of a run of one trial."""
    from savemark.checks import Evidence, catalogue
    from savemark.records import phases, read_run
    from savemark.stats import results

    line = {"index": 0, "role": "trial", "name": "trial", "label": "x", "repeat": 0}
    line |= {"factors": {}, "status": "ok", "record": record, "error": None}
    (tmp_path / "run").mkdir()
    (tmp_path / "run/records.jsonl").write_text(json.dumps(line) + "\n")
    head = {"schema": 1, "run_id": "r", "savemark_version": "0", "started_at": "2026-11-21T12:00"}
    head |= {"command": [], "study": {"name": "io500"}, "host": {}, "order_seed": 0}
    head |= {"targets": [{"label": "x", "target": "/x"}], "plan": [line]}
    (tmp_path / "run/run.json").write_text(json.dumps(head))
    run = read_run(tmp_path / "run")
    frame = phases(run)
    entry = next(entry for entry in catalogue() if entry.id == check)
    return entry.function(Evidence(run, frame, results(run, frame)))


def test_what_was_only_too_short_is_flagged_and_what_was_wrong_is_blocked(
    place, tmp_path, monkeypatch
):
    record = stood_in(place, tmp_path, monkeypatch)
    found = verdict(record, tmp_path, "HC-25")
    assert found.verdict == "FLAG" and not found.blocks
    assert "stonewall-time 1s != 300s" in found.evidence
    record["phases"][5]["invalid"].append("Errors (2) occured during phase in IOR.")
    shutil.rmtree(tmp_path / "run")
    found = verdict(record, tmp_path, "HC-25")
    assert found.verdict == "BLOCK" and "Errors (2)" in found.evidence
    assert [key[2] for key in found.blocks] == ["ior-easy-read"]
    for each in record["phases"]:
        each["invalid"] = []
    shutil.rmtree(tmp_path / "run")
    assert verdict(record, tmp_path, "HC-25").verdict == "ok"


def test_both_side_by_side(tmp_path):
    """The same run of both programs, with the real one."""
    if not shutil.which("io500"):
        missing("io500", "it is not on PATH")
    foreign.need("mpirun")
    place = tmp_path / "place"
    place.mkdir()
    words = ("--tool", "savemark,io500", "--out", tmp_path / "run")
    done = savemark("run", "io500", place, *TINY, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "io500 / savemark" in done.stdout and list(place.iterdir()) == []
    said = json.loads(savemark("io500", tmp_path / "run", "--show-blocked", "--json").stdout)
    assert {each["name"] for each in said} == {"savemark", "io500"}
    assert all(each["score"] > 0 for each in said)


# What it will take.


def test_the_forecast_knows_the_deadline_and_the_room():
    from savemark.study.cost import Rates, Storage, cost
    from savemark.study.keys import resolve

    trial = resolve({k: v for k, v in TRIAL.items() if k not in ("tool", "block_size")})
    trial |= {"phase_deadline": 300.0, "files_per_worker": 10_000}
    rates = Rates(2, {("x", "posix"): Storage(1e9, 2e9)})
    found = cost(trial, "x", rates)
    # The easy part is ended by its deadline, the hard one by its size.
    assert 300e9 < found.held < 301e9
    assert 300 + 150 < found.seconds < 500
    assert cost(trial, "y", rates).held < 1e9, "of an unknown storage nothing is claimed"
