"""What messages tell a user to type exists: every option that a hint names is one of a command."""

import ast
import re
from pathlib import Path

import click
import pytest

ROOT = Path(__file__).parent.parent
OPTION = re.compile(r"(?<![\w=-])--[a-z][a-z0-9-]+")
RUST = re.compile(r'"((?:[^"\\]|\\.)*)"')
# What messages say of other programs: unshare, criu, docker, cuda-checkpoint, mpirun, srun, aws,
# each tool's own.
OTHERS = {
    *("--fork", "--mount-proc", "--images-dir", "--cpus"),
    *("--toggle", "--pid", "--recursive", "--foreground", "--bind-to", "--cpu-bind"),
}
# The engine runs under these; the checks talk of measuring again.
ENGINE, CHECKS = ("run", "save", "restore"), ("run", "doctor")


def options(names):
    """Every spelling of every option of these commands."""
    from savemark.cli import cli

    found = {"--version", "--help"}
    for name in names:
        command = cli.get_command(None, name)
        for each in command.get_params(click.Context(command)):
            found |= {*each.opts, *each.secondary_opts}
    return found


def prose(text):
    """Options in a sentence; a word alone belongs to a command line that is run."""
    return set(OPTION.findall(text)) if " " in text.strip() else set()


def in_python(folder):
    """Options in the messages of a folder: file and line → options."""
    found = {}
    for file in (ROOT / "python/savemark" / folder).rglob("*.py"):
        tree = ast.parse(file.read_text())
        # A string that is a statement is documentation.
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if text and id(node) not in docs and prose(node.value):
                found[f"{file.relative_to(ROOT)}:{node.lineno}"] = prose(node.value)
    return found


def in_rust():
    found = {}
    for file in (ROOT / "crates").glob("*/src/**/*.rs"):
        if file.name == "tests.rs":
            continue
        text = file.read_text().split("#[cfg(test)]")[0]
        for number, line in enumerate(text.splitlines(), start=1):
            if line.lstrip().startswith("//"):
                continue
            named = set().union(*(prose(each) for each in RUST.findall(line)))
            if named:
                found[f"{file.relative_to(ROOT)}:{number}"] = named
    return found


def unknown(found, commands):
    known = options(commands) | OTHERS
    return {place: named - known for place, named in found.items() if named - known}


def test_the_engine_names_options_that_its_commands_have():
    found = in_rust()
    assert len(found) > 30, "the hints of the engine are found"
    assert unknown(found, ENGINE) == {}


def test_the_checks_name_options_that_a_run_has():
    found = in_python("checks")
    assert len(found) > 8
    # What the observer looks for in the command lines of tools is no hint.
    found = {place: named for place, named in found.items() if "observer.py:2" not in place}
    assert unknown(found, CHECKS) == {}


@pytest.mark.parametrize(
    "folder", ["run", "study", "stats", "report", "advice", "checkpoint", "places"]
)
def test_every_other_message_names_options_of_some_command(folder):
    from savemark.cli import COMMANDS

    found = in_python(folder)
    found = {place: named for place, named in found.items() if "study/mounts.py" not in place}
    assert unknown(found, COMMANDS) == {}


def test_an_option_that_no_command_has_would_be_found():
    assert unknown({"here": prose("use --workload random")}, ENGINE) == {"here": {"--workload"}}
    assert prose("--shell-job") == set()
    assert prose("add --criu-options=--shell-job") == {"--criu-options"}
