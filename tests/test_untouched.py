"""What a report or an export does not touch: links, and files that are not its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from made_run import Made, make_run
from savemark import cli, report
from savemark.errors import SavemarkError

TINY = Made(codecs=("none", "zstd"), streams=(0, 2), repeats=2)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _savemark(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main([str(word) for word in words])
    return ended.value.code


@pytest.mark.parametrize("kind", ["symbolic", "dangling", "hard"])
def test_links_in_a_run_folder_are_replaced_and_never_followed(kind, tmp_path):
    run = make_run(tmp_path / "run", TINY)
    report.build(run)
    victims = tmp_path / "victims"
    victims.mkdir()
    made = [f for f in _files(run) if f.name not in ("run.json", "records.jsonl")]
    assert len(made) > 10
    for number, file in enumerate(made):
        victim = victims / str(number)
        keep = file.read_bytes() if file.name == "report.html" else b"precious"
        if kind != "dangling":
            victim.write_bytes(keep)
        file.unlink()
        os.link(victim, file) if kind == "hard" else file.symlink_to(victim)
        (file.parent / f"{file.name}.part").symlink_to(victim)
    before = {victim: victim.read_bytes() for victim in victims.iterdir()}
    report.build(run)
    assert {victim: victim.read_bytes() for victim in victims.iterdir()} == before
    assert not [file for file in made if file.is_symlink() or file.stat().st_nlink > 1]
    assert b"generator" in (run / "report.html").read_bytes()
    assert not [file for file in _files(run) if file.name.startswith(".savemark-")]


@pytest.mark.parametrize("name", ["figures", "tables"])
def test_a_linked_folder_is_refused(name, tmp_path):
    run = make_run(tmp_path / "run", TINY)
    (tmp_path / "elsewhere").mkdir()
    (run / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SavemarkError, match="is a link") as raised:
        report.build(run)
    assert raised.value.kind == "refused"
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_page_of_somebody_else_is_not_replaced(tmp_path, capsys):
    runs = [make_run(tmp_path / name, TINY) for name in ("a", "b")]
    for place in (runs[0], tmp_path / "pages"):
        place.mkdir(exist_ok=True)
        (place / "report.html").write_text("<html>mine</html>")
    assert _savemark("report", *runs, "-o", tmp_path / "pages") == 5
    assert _savemark("report", runs[0]) == 5
    assert "was not made by savemark" in capsys.readouterr().err
    for place in (runs[0], tmp_path / "pages"):
        assert (place / "report.html").read_text() == "<html>mine</html>"
    assert _savemark("report", *runs, "-o", tmp_path / "new") == 0
    assert _savemark("report", *runs, "-o", tmp_path / "new") == 0  # our own it replaces


def test_an_export_leaves_its_neighbours(tmp_path):
    run = make_run(tmp_path / "run", TINY)
    (tmp_path / "t.csv.part").write_text("mine")
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "t.csv").symlink_to(tmp_path / "victim")
    assert _savemark("export", run, "-o", tmp_path / "t.csv") == 0
    assert (tmp_path / "t.csv.part").read_text() == "mine"
    assert (tmp_path / "victim").read_text() == "precious"
    assert (tmp_path / "t.csv").read_text().startswith("schema,")


@pytest.mark.parametrize(
    "name", ["../x", "a/b", ".", "", "-x", "a\nb", "a\x1b[2J", "$(id)", "x" * 101]
)
def test_a_study_has_a_name_that_a_folder_can_have(name, tmp_path, capsys):
    file = tmp_path / "s.yaml"
    file.write_text(f"name: {json.dumps(name)}\ntrial: {{workload: checkpoint}}\n")
    (tmp_path / "disk").mkdir()
    assert _savemark("run", file, tmp_path / "disk", "--dry-run") == 2
    assert "is no name of a study" in capsys.readouterr().err
