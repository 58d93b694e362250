"""A run that takes ten budgets of its study is not started unasked."""

import os
import pty
from types import SimpleNamespace

import pytest

from savemark.cli._ask import Asking
from savemark.errors import SavemarkError

LONG = (
    "--size",
    "8g",
)  # at the fake engine's 1 GB/s it takes far longer than ten times two minutes


def runs(place):
    folder = place.parent / "savemark-runs"
    return list(folder.iterdir()) if folder.exists() else []


def test_without_a_terminal_it_is_refused_with_the_command_to_type(savemark, place):
    done = savemark("run", "grid", place, *LONG)
    assert done.returncode == 5
    message, hint = done.stderr.strip().splitlines()[-2:]
    assert message.startswith("error: not started without a word from you: grid is meant for 2 min")
    assert " min and writes " in message
    assert f"savemark run grid {place} --size 8g --yes" in hint
    assert "--budget" in hint
    assert runs(place) == []
    assert not list(place.iterdir())


def test_a_race_is_made_shorter_by_its_size():
    study = SimpleNamespace(name="quick", budget_s=120.0, race=object())
    found = SimpleNamespace(study=study, seconds=1201.0, stretch=1.0, written_bytes=1 << 40)
    command = ("savemark", "run", "/mnt/my disk")
    with pytest.raises(SavemarkError) as raised:
        Asking(command, yes=False).agree(found)
    assert raised.value.kind == "refused"
    assert "takes about 20 min and writes 1.0 TiB" in raised.value.message
    assert "savemark run '/mnt/my disk' --yes; a smaller --size" in raised.value.hint
    found.seconds = 1200.0
    Asking(command, yes=False).agree(found)


@pytest.mark.parametrize("words", [("--budget", "20m"), ("--size", "64m", "--repeats", "1")])
def test_what_keeps_to_a_time_is_not_asked(savemark, place, words):
    assert savemark("run", "grid", place, *words, "--repeats", "1").returncode == 0


def test_a_dry_run_is_never_asked(savemark, place):
    done = savemark("run", "grid", place, *LONG, "--dry-run")
    assert done.returncode == 0
    assert "more than the budget" in done.stdout


def test_all_repeats_that_a_rule_allows_count(savemark, place):
    words = ("run", "grid", place, "--size", "700m", "--until", "ci<3%", "--max-repeats", "30")
    assert savemark(*words).returncode == 5
    assert "ci<3%" in savemark(*words).stderr.split("hint: ")[1]


@pytest.mark.parametrize(
    ("words", "answer", "starts"),
    [((), b"y\n", True), ((), b"\n", False), (("--yes",), None, True)],
)
def test_a_terminal_is_asked(savemark, place, words, answer, starts):
    """The fake engine needs a moment for all of it, whatever it forecasts."""
    parent, child = pty.openpty()
    savemark.terminal = child
    process = savemark.popen("run", "grid", place, *LONG, *words, stdin=child, TERM="xterm")
    os.close(child)
    shown = b""
    while b"Start it? [y/N]" not in shown and (chunk := read(parent)):
        shown += chunk
    assert (b"Start it? [y/N]" in shown) is (answer is not None)
    if answer:
        os.write(parent, answer)
    while chunk := read(parent):
        shown += chunk
    process.communicate()
    assert process.returncode == (0 if starts else 5), shown
    assert bool(runs(place)) is starts
    assert not list(place.iterdir())


def read(descriptor):
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # Linux says EIO when the other side of a terminal is closed
        return b""
