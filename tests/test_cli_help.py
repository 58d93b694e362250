"""The help of `savemark run`: short, in groups; of a study, that study's own options."""

import json
import re

import pytest

from savemark.study.keys import Keys
from savemark.study.load import load
from savemark.study.shipped import shipped

GROUPS = ["Examples", "Run", "Result", "State", "Storage", "More"]


def option_names(text):
    """Every option that a help page explains: those at the begin of a row."""
    return set(re.findall(r"^  (--[a-z-]+)", text, re.MULTILINE))


def flags(names, keys):
    return {keys.key(name).flag for name in names}


@pytest.mark.parametrize(("command", "most"), [("run", 45), ("pair", 50)])
def test_the_help_is_one_screen_in_groups(run, command, most):
    code, out, _ = run(command, "--help")
    assert code == 0
    lines = out.splitlines()
    assert len(lines) <= most
    assert max(map(len, lines)) <= 80
    titles = [line.split(":")[0].split(" (")[0] for line in lines if re.match(r"[A-Z]", line)]
    assert titles == ["Usage", *GROUPS]
    assert {"--budget", "--size", "--state", "--codec", "--storage"} <= option_names(out)


def test_the_examples_are_commands_that_exist(run, place):
    out = run("run", "--help")[1].partition("\nRun:")[0]
    examples = re.findall(r"^  (savemark run .*?)  ", out, re.MULTILINE)
    assert len(examples) == 3
    (place / "model").mkdir()
    (place / "model" / "file").write_text("x")
    (place / "empty").mkdir()
    for example in examples:
        words = example.split()[1:]
        words = [
            str(place / "empty") if word.startswith(("/mnt", "s3:")) else word for word in words
        ]
        words = [str(place / "model") if word == "./model" else word for word in words]
        code, _, err = run(*list(dict.fromkeys(words)), "--storage", "posix", "--dry-run")
        assert code == 0, err


@pytest.mark.parametrize("name", shipped())
def test_a_study_shows_the_options_that_it_accepts_and_no_others(run, name):
    keys = Keys.load()
    study = load(shipped()[name], keys)
    code, out, err = run("run", name, "--help")
    assert code == 0, err
    accepted = set()
    for section in study.sections():
        trial = section.trial_of(section.trial, {}, keys)
        accepted |= keys.accepted(trial["workload"], trial["storage"])
    accepted -= {"target", "seed", "workload"}
    shown = option_names(out)
    assert flags(accepted, keys) == shown - {"--help"}
    assert len(shown) < 45
    rows = re.split(r"^  (?=--)", out, flags=re.MULTILINE)
    for row in rows[1:]:
        if re.match(r"--[\w, -]+ (SIZE|TIME)", row):
            assert "bytes" in row or "seconds" in row, row


def test_a_default_is_the_studys_own(run):
    out = " ".join(run("run", "acceptance", "--help")[1].split())
    assert "--workers N Threads of each rank (ranks × workers: -N). [default: 16 · 1,2,4" in out
    assert "How many are made" in out, "items of metadata, not of copy"
    assert "--block-size SIZE Contiguous bytes of one worker in a segment (-b). [bytes;" in out
    out = " ".join(run("run", "quick", "--help")[1].split())
    assert "[bytes; default: auto]" in out


def test_a_study_of_ones_own_is_shown_too(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(
        "title: Mine\ntrial: {workload: memcpy, storage: 'null', size: 64MiB}\n"
        "factors: {workers: [1, 2]}\n"
    )
    out = run("run", "mine.yaml", "-h")[1]
    assert {"--size", "--workers"} <= option_names(out)
    assert "--codec" not in out
    assert "default: 1,2" in out
    assert run("run", "mein.yaml", "--help")[0] == 2


def test_the_yaml_of_a_study_is_printed(run):
    for name, file in shipped().items():
        assert run("studies", "show", name)[1] == file.read_text(encoding="utf-8")
    code, _, err = run("studies", "show", "qick")
    assert (code, "did you mean `quick`?" in err) == (2, True)
    assert "quick" in run("studies")[1]
    assert {each["name"] for each in json.loads(run("studies", "--json")[1])} == set(shipped())
