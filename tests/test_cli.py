"""The command line: help without heavy imports, errors as text and as JSON, dry run, settings."""

import json
import os
import pty
import re
import subprocess
import sys

import pytest

HEAVY = ["polars", "altair", "scipy", "rich", "jinja2", "ruamel", "numpy", "savemark._engine"]


def test_help_imports_nothing_heavy(savemark):
    script = (
        "import sys, savemark.cli\n"
        "try: savemark.cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=None
    )
    assert done.stderr.strip() == "[]"
    for command in ("run", "report", "studies", "schema", "doctor"):
        assert f"\n  {command} " in done.stdout


def test_every_command_file_is_listed_and_every_listed_command_works(engine):
    from pathlib import Path

    import click

    from savemark import cli

    # A file may not be called `import`, so that one ends in an underscore.
    stems = (path.stem for path in Path(cli.__file__).parent.glob("[a-z]*.py"))
    files = {stem.removesuffix("_") for stem in stems}
    assert files == set(cli.COMMANDS)
    for name in cli.COMMANDS:
        assert isinstance(cli.cli.get_command(click.Context(cli.cli), name), click.Command)


def test_run_has_an_option_for_every_key_of_the_schema(engine):
    import click

    from savemark.cli.run import command

    schema = json.loads(engine.schema())
    groups = [schema["common"], *schema["workloads"].values(), *schema["storages"].values()]
    names = {name for group in groups for name in group.get("properties", {})} - {"target", "seed"}
    known = {name for each in command.get_params(click.Context(command)) for name in each.opts}
    assert {"--" + name.replace("_", "-") for name in names} <= known


def test_version_says_what_works_here(savemark):
    done = savemark("--version")
    assert done.stdout.splitlines()[0] == "savemark 0.1.0"
    assert "blocked by seccomp" in done.stdout


def test_doctor_studies_schema(savemark, place, engine):
    assert "cpu.available" in savemark("doctor").stdout
    facts = json.loads(savemark("doctor", place, "--json").stdout)
    assert facts["features"][1]["available"] is False
    assert re.search(r"^quick +How fast does this directory", savemark("studies").stdout, re.M)
    names = [each["name"] for each in json.loads(savemark("studies", "--json").stdout)]
    assert "quick" in names
    assert json.loads(savemark("schema").stdout) == json.loads(engine.schema())


@pytest.mark.parametrize(
    ("words", "code", "message", "hint"),
    [
        (["run"], 2, "no directory to measure", "savemark run /mnt/scratch"),
        (["run", "quik"], 2, "`quik` is neither a study", "`quick`"),
        (["run", "/nowhere"], 2, "/nowhere does not exist", "mkdir -p /nowhere"),
        (["run", "{place}", "--size", "4kb"], 2, "--size: `4kb` has an unknown unit", None),
        (["run", "{place}", "--budget", "x"], 2, "--budget: `x` is not a duration", None),
        (["run", "{place}", "--sise", "1g"], 2, "--sise", "--help"),
        (["run", "{place}", "--repeats", "0"], 2, "--repeats", "--help"),
        (["run", "{place}", "--state", "/nowhere"], 2, "--state /nowhere", "directory"),
        (
            ["run", "{place}", "--queue-depth", "many"],
            2,
            "--queue-depth: `many` is",
            None,
        ),
        (["run", "{place}", "--operations", "9"], 2, "`operations` is not an option", None),
        (["run", "{place}", "--size", "100000g"], 5, "at one time", "--size"),
        (["runn"], 2, "runn", None),
    ],
)
def test_errors_are_one_message_with_the_fix_and_the_exit_code(
    savemark, place, words, code, message, hint
):
    words = [word.format(place=place) for word in words]
    done = savemark(*words)
    assert done.returncode == code
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    if hint:
        assert hint in done.stderr.split("\nhint: ")[1]

    machine = savemark(*words, "--json")
    assert machine.returncode == code
    if words[0] == "run":
        error = json.loads(machine.stdout)["error"]
        assert message in error["message"]
    assert not list(place.iterdir())


def test_a_bug_shows_a_traceback_only_when_asked_for(savemark, place):
    broken = {"FAKE_ERRORS": "no json"}
    assert "error: a bug in savemark" in savemark("run", place, **broken).stderr
    assert "Traceback" in savemark("run", place, SAVEMARK_DEBUG="1", **broken).stderr


def test_dry_run_says_all_and_writes_nothing(savemark, place, tmp_path):
    done = savemark("run", "grid", place, "--dry-run", "--codec", "none,zstd", "--size", "64m")
    assert done.returncode == 0
    assert "8 settings × 5 repeats" in done.stdout
    assert "1.00 GB/s (not measured in a dry run)" in done.stdout
    assert "zstd × 8" in done.stdout
    facts = json.loads(savemark("run", "grid", place, "--dry-run", "--json").stdout)
    assert facts["size_bytes"] % (16 << 20) == 0
    assert 0 < facts["seconds"] <= 120
    assert facts["written_bytes"] > 0
    assert {p.name for p in tmp_path.iterdir()} == {"place"}
    assert not list(place.iterdir())


def test_a_budget_by_hand_cuts_repeats_and_a_studys_own_only_warns(savemark, place):
    words = ("run", "grid", place, "--dry-run", "--size", "1g")
    assert "more than the budget of 2 min" in savemark(*words).stdout
    cut = savemark(*words, "--budget", "3m").stdout
    assert "not 5: that is what the budget holds" in cut
    assert "a sample of 24 settings: that is what" in savemark(*words, "--budget", "1s").stdout


def test_flag_beats_environment_beats_study(savemark, place):
    def facts(*words, **environment):
        done = savemark("run", place, "--dry-run", "--json", *words, **environment)
        return json.loads(done.stdout)

    assert facts(SAVEMARK_SIZE="32m")["size_bytes"] == 32 << 20
    assert facts("--size", "48m", SAVEMARK_SIZE="32m")["size_bytes"] == 48 << 20
    assert facts(SAVEMARK_REPEATS="2")["repeats"] == 2
    buffered = facts("--no-direct")
    assert buffered["study"]["trial"]["direct"] is False
    assert facts("--io", "posix")["study"]["trial"]["storage"] == "posix"


def test_json_is_the_only_thing_on_stdout(savemark, place):
    done = savemark("run", place, "--json", "--repeats", "1")
    assert json.loads(done.stdout)["valid"] is False
    assert done.returncode == 0
    strict = savemark("run", place, "--json", "--repeats", "1", "--strict")
    assert strict.returncode == 1


def test_a_terminal_gets_a_bar_and_no_color_is_respected(savemark, place, engine):
    parent, child = pty.openpty()
    savemark.terminal = child
    process = savemark.popen(
        "run", "grid", place, "--repeats", "1", FAKE_SLEEP_S="0.02", NO_COLOR="1", TERM="xterm"
    )
    os.close(child)
    shown = b""
    while chunk := _read(parent):
        shown += chunk
    process.communicate()
    text = shown.decode()
    assert "38/38" in text
    assert "left" in text
    assert "\x1b[3" not in text, "no colour"


def _read(descriptor):
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # Linux says EIO when the other side of a terminal is closed
        return b""


def test_a_reader_that_leaves_is_no_error(savemark):
    process = savemark.popen("schema")
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate()
    assert err == ""


def test_exit_codes_are_the_documented_ones():
    from savemark.errors import EXIT_CODES

    assert EXIT_CODES == {
        "failed": 1,
        "usage": 2,
        "outside": 3,
        "corrupt": 4,
        "refused": 5,
        "interrupted": 130,
    }


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (["runn", "x"], "there is no command `runn`", "did you mean `run`?"),
        (["/mnt/x"], "there is no command `/mnt/x`", "savemark run /mnt/x"),
        (["io500", "place"], "no result.txt", "savemark run io500 PATH"),
        (["restore", "place", "new"], "there is no checkpoint in place", "savemark list place"),
        (["verify", "place"], "manifest.json is missing", "savemark list place"),
        (["run", "qick", "./place"], "neither a study", "create it first; did you mean `quick`?"),
    ],
)
def test_a_mistake_is_told_with_the_way_out(run, place, monkeypatch, words, said, hint):
    monkeypatch.chdir(place.parent)
    code, _, err = run(*words)
    message, told = err.splitlines()
    assert (code, said in message, hint in told) == (2, True, True), err


def test_doctor_shows_sizes_as_people_say_them(run):
    code, out, _ = run("doctor")
    assert code == 0
    assert "GiB" in next(line for line in out.splitlines() if "memory.total " in line)
    assert "_bytes" not in out
