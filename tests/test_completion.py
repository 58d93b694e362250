"""Completion in bash, zsh and fish: the scripts, what they ask, and bash itself."""

import os
import shutil
import subprocess
import sys

import pytest

SHELLS = {
    "bash": "complete -o nosort -F _savemark_completion savemark",
    "zsh": "compdef _savemark_completion savemark",
    "fish": "complete --no-files --command savemark",
}


def ask(how, tmp_path, **words):
    """Run `savemark` as a shell does that wants words, or its script."""
    done = subprocess.run(
        [sys.executable, "-m", "savemark"],
        env={**os.environ, "_SAVEMARK_COMPLETE": how, **words},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == "", "nothing comes between the user and the line"
    return done.stdout


def completed(shell, line, tmp_path):
    """What a shell is told when the cursor is at the end of `line`."""
    before, _, last = line.rpartition(" ")
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(before.split()))}
    if shell == "fish":
        words = {"COMP_WORDS": line, "COMP_CWORD": last}
    out = ask(f"{shell}_complete", tmp_path, **words)
    if shell == "zsh":  # kind, word and text in lines of their own
        return out.splitlines()[1::3]
    return [each.split(",", 1)[1].split("\t")[0] for each in out.split("\n") if each]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_for_every_shell(shell, tmp_path):
    script = ask(f"{shell}_source", tmp_path)
    assert SHELLS[shell] in script
    if shutil.which(shell):
        check = ["fish", "--no-execute"] if shell == "fish" else [shell, "-n"]
        subprocess.run(check, input=script, text=True, check=True)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("savemark du", ["durability"]),
        ("savemark run --coun", []),
        ("savemark run --qu", ["--queue-depth"]),
        ("savemark run --codec zs", ["zstd"]),
        ("savemark run --codec zstd,pl", ["zstd,planes"]),
        ("savemark run acc", ["acceptance"]),
        ("savemark studies show dur", ["durability"]),
        ("savemark save --chunk", ["--chunk-size"]),
        ("savemark nosuch x", []),
    ],
)
def test_words_are_completed(shell, line, words, tmp_path):
    found = completed(shell, line, tmp_path)
    assert (found == words) if words else not set(found) & {"--codec", "run"}


def test_bash_completes_with_the_script(tmp_path):
    """As documented: the script is sourced, then tab is pressed (`compgen` by hand)."""
    bash = shutil.which("bash")
    if not bash:
        pytest.skip("no bash")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "savemark").write_text(f'#!/bin/sh\nexec {sys.executable} -m savemark "$@"\n')
    (folder / "savemark").chmod(0o755)
    (tmp_path / "scratch").mkdir()
    script = """
eval "$(_SAVEMARK_COMPLETE=bash_source savemark)"
complete -p savemark
tab() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=();
        compopt() { local IFS=' '; echo "compopt $*"; }
        _savemark_completion savemark; echo "${COMPREPLY[@]}"; }
tab savemark run --codec lz4,zs
tab savemark run acc
tab savemark run scr
"""
    done = subprocess.run(
        [bash, "--norc", "-c", script],
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "complete -o nosort -F _savemark_completion savemark",
        "lz4,zstd",
        "acceptance",
        "compopt -o dirnames",
        "",
    ]
