"""Every output of the samples, as files in tests/snapshots: what changes one says so in its commit.

`pytest tests/test_snapshots.py --regen-all` writes them anew; the commit shows what changed.
Of a figure only the words are kept: shapes are the drawing library's.
"""

from __future__ import annotations

import html
import io
import json
import re
import shutil
from pathlib import Path

import click
import pytest
from rich.console import Console

import samples

KEPT = Path(__file__).parent / "snapshots"
# What a page holds besides its text: the template's own files, and drawings.
STYLE = re.compile(r"<(style|script)\b[^>]*>.*?</\1>", re.DOTALL)
DRAWING = re.compile(r"<svg.*?</svg>", re.DOTALL)
WORDS = re.compile(r'aria-label="([^"]*)"|<text[^>]*>([^<]*)</text>')
# Both ways of printing, and both widths that people have.
WIDTHS = (80, 120)


def page(text: str) -> str:
    """A page with one element per line, and of each drawing its words."""
    text = DRAWING.sub(lambda drawing: f"<svg>{_words(drawing[0])}</svg>", STYLE.sub("", text))
    return re.sub(r">\s*<", ">\n<", text)


def _words(drawing: str) -> str:
    words = (label or text for label, text in WORDS.findall(drawing))
    return "\n".join(dict.fromkeys(html.unescape(each) for each in words if each))


def outputs(folder: Path) -> dict[str, str]:
    """The name of each output of a run folder, and its text."""
    from savemark import report

    report.build(folder)
    texts = {"report.html": page((folder / "report.html").read_text(encoding="utf-8"))}
    for path in sorted([folder / "report.md", *(folder / "tables").iterdir()]):
        texts[path.name] = path.read_text(encoding="utf-8")
    for width in WIDTHS:
        texts[f"screen-{width}.txt"] = screen(folder, width)
    texts["screen-blocked.txt"] = screen(folder, WIDTHS[0], show_blocked=True)
    return texts | {"summary.json": indented(report.summary(folder))}


def screen(folder: Path, width: int, *, show_blocked: bool = False) -> str:
    """What a terminal shows of a run."""
    from savemark import report

    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    report.show(folder, console, show_blocked=show_blocked)
    return console.file.getvalue()


def indented(data: object) -> str:
    """JSON with a key per line."""
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def printed(run, *words) -> str:
    """What a command prints, after its exit code; JSON a key per line."""
    code, out, err = run(*words)
    if "--json" in words:
        out = indented(json.loads(out))
    return f"exit {code}\n{out}{err}"


class Snapshots:
    """Holds texts against the files of one sample; a test names all that differ."""

    def __init__(self, regression, subtests, sample: str) -> None:
        self._regression = regression
        self._subtests = subtests
        self._folder = KEPT / sample

    def check(self, name: str, text: str) -> None:
        path = self._folder / name
        with self._subtests.test(str(path.relative_to(KEPT))):
            self._regression.check(text, fullpath=path, encoding="utf-8", newline="")


@pytest.fixture
def snapshots(file_regression, subtests):
    return lambda sample: Snapshots(file_regression, subtests, sample)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Work in an empty directory: names are relative, so that lines break where they did."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize("sample", samples.RUNS)
def test_the_outputs_of_a_run(sample, snapshots, run):
    folder = samples.RUNS[sample](Path(sample))
    kept = snapshots(sample)
    for name, text in outputs(folder).items():
        kept.check(name, text)
    for words in samples.COMMANDS:
        kept.check(f"{''.join(words)}.txt", printed(run, words[0], folder, *words[1:]))


@pytest.mark.parametrize("sample", samples.PAIRS)
def test_the_outputs_of_two_runs(sample, snapshots, run):
    before, after = samples.PAIRS[sample](Path())
    for name, words in samples.OF_TWO.items():
        named = [{"BEFORE": before, "AFTER": after}.get(word, word) for word in words]
        snapshots(sample).check(f"{name}.txt", printed(run, *named))


@pytest.mark.parametrize("sample", samples.FILES)
def test_the_outputs_of_somebody_elses_files(sample, snapshots, run):
    shutil.copytree(samples.DATA, ".", dirs_exist_ok=True)
    kept = snapshots(f"files/{sample}")
    kept.check("import.txt", printed(run, "import", *samples.FILES[sample], "--out", "run"))
    _at_one_time(Path("run/run.json"))
    texts = outputs(Path("run"))
    for name in ("report.md", "screen-80.txt", "settings.csv", "phases.csv"):
        kept.check(name, texts[name])
    kept.check("check.txt", printed(run, "check", "run"))


def _at_one_time(head: Path) -> None:
    """Let a folder be imported when the snapshots were."""
    known = {"run_id": "imported-0001", "started_at": "2026-11-20T19:40:12+01:00"}
    known["command"] = ["savemark", "import", "FILES"]
    head.write_text(json.dumps(json.loads(head.read_bytes()) | known))


def commands(group: click.Group, words: tuple[str, ...] = ()):
    """Each command of a program, with its words."""
    yield words
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name)


def test_the_help_of_each_command(snapshots, run, monkeypatch):
    from savemark.cli import cli

    monkeypatch.setenv("COLUMNS", "80")
    for words in commands(cli):
        name = "-".join(words) or "savemark"
        snapshots("help").check(f"{name}.txt", printed(run, *words, "--help"))


@pytest.mark.parametrize("which", ["", "--records", "--table"])
def test_the_schemas(which, snapshots, run):
    name = which.removeprefix("--") or "trial"
    code, out, _ = run("schema", *filter(None, [which]))
    assert code == 0
    snapshots("schema").check(f"{name}.json", out)


def test_each_kept_folder_has_its_sample():
    folders = {path.parent.relative_to(KEPT).as_posix() for path in KEPT.rglob("*.*")}
    samples_ = {*samples.RUNS, *samples.PAIRS, *(f"files/{name}" for name in samples.FILES)}
    assert folders == samples_ | {"help", "schema"}
