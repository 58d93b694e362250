"""Whatever a name or message holds: it is shown, and nothing obeys it."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import browser
from hostile import EVERYTHING, FORMULAS, WORDS, hostile_run
from savemark import cli, escape, report

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
# The elements of a drawing.
DRAWN = {"svg", "g", "path", "rect", "text", "line", "defs", "clipPath", "circle", "tspan"}
DRAWN |= {"linearGradient", "stop"}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = hostile_run(tmp_path_factory.mktemp("hostile") / "run")
    report.build(folder)
    return folder


# How the manifest of a checkpoint begins; the rest of this one is damaged.
MANIFEST = '{"format":"savemark-checkpoint","version":1,'


class Page(HTMLParser):
    """The elements and attributes of a page, as a browser would find them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: set[str] = set()
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {str(value) for name, value in attrs if name in ("href", "src", "xlink:href")}


def test_a_page_has_only_our_elements_and_attributes(run):
    text = (run / "report.html").read_text()
    page = Page(text)
    assert page.elements.count("script") <= 2
    assert not {"img", "iframe", "object", "embed", "base"} & set(page.elements)
    assert not [name for name in page.attributes if not re.fullmatch(r"[A-Za-z:-]+[0-9]*", name)]
    assert not [name for name in page.attributes if name.startswith("on")]
    assert not [link for link in page.links if "script" in link or "//" in link]
    assert not CONTROLS.findall(text)


def test_drawings_are_xml_without_scripts(run):
    from xml.etree import ElementTree

    files = list((run / "figures").glob("*.svg"))
    assert files
    for file in files:
        names = {each.tag.rpartition("}")[2] for each in ElementTree.parse(file).iter()}
        assert names <= DRAWN, file


def _live(markdown: str) -> list[str]:
    """What a renderer of Markdown would take for HTML, a link or an image."""
    outside, fence = [], ""
    for line in markdown.splitlines():
        mark = re.match(r"`{3,}", line)
        if mark and (not fence or line.strip() == fence):
            fence = "" if fence else mark[0]
        elif not fence:
            outside.append(line)
    assert not fence
    text = "\n".join(outside)
    links = re.findall(r"(?<!\\)\]\((?!figures/[\w.-]+\.svg\))[^)]*\)", text)
    return links + re.findall(r"<(?!/?(?:details|summary|sub)\b)[a-zA-Z/!][^>]*>?", text)


def test_markdown_holds_no_html_and_no_foreign_link(run):
    text = (run / "report.md").read_text()
    own = {f"]({file.relative_to(run)})" for file in run.rglob("*") if file.is_file()}
    assert not [link for link in _live(text) if link not in own]
    assert not CONTROLS.findall(text)
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert not [line for line in heads if line.startswith("# ") and line != heads[0]]


def test_no_cell_of_a_csv_is_a_formula(run, capsys):
    texts = [file.read_bytes().decode() for file in (run / "tables").glob("*.csv")]
    _savemark("export", "--format", "csv", "-o", run / "trials.csv", run)
    texts.append((run / "trials.csv").read_text())
    assert len(texts) == 5
    for text in texts:
        assert not CONTROLS.findall(text.replace("\r\n", "\n"))
        rows = list(csv.reader(io.StringIO(text)))
        assert len({len(row) for row in rows}) == 1
        for field in (field for row in rows for field in row):
            assert not re.match(r"\s*[=+@\t]|\s*-(?!\d*\.?\d+(e-?\d+)?$)", field), field


COMMANDS = {
    "report": ["report", "RUN"],
    "check": ["check", "--all", "RUN"],
    "advise": ["advise", "RUN"],
    "compare": ["compare", "RUN", "OTHER"],
    "compare-markdown": ["compare", "--markdown", "RUN", "OTHER"],
    "gate": ["gate", "RUN", "--baseline", "OTHER", "--show-blocked", "--allow-different"],
    "gate-markdown": ["gate", "RUN", "--baseline", "OTHER", "--markdown", "--allow-different"],
    "turns": ["gate", "RUN", "--markdown"],
    "list": ["list", "PLACE"],
    "unknown-place": ["report", f"/{WORDS[6]}"],
    "unknown-option": ["report", f"--{WORDS[6]}"],
    "unknown-study": ["run", f"x{WORDS[6]}.yaml", "--dry-run", "here=/tmp"],
}


@pytest.fixture(scope="module")
def other(tmp_path_factory) -> Path:
    return hostile_run(tmp_path_factory.mktemp("other") / "run")


@pytest.fixture
def known(run, other, tmp_path) -> dict[str, Path]:
    """What the words in capitals of a command are."""
    place = tmp_path / f"x{WORDS[6]}".replace("/", "")
    (place / f"ck{WORDS[6]}").mkdir(parents=True)
    (place / f"ck{WORDS[6]}" / "manifest.json").write_text(MANIFEST)
    return {"RUN": run, "OTHER": other, "PLACE": place}


@pytest.mark.parametrize("width", ["80", "120", "json"])
@pytest.mark.parametrize("name", list(COMMANDS))
def test_no_command_passes_a_control_character_on(name, width, known, capsys, monkeypatch):
    words = [known.get(word, word) for word in COMMANDS[name]]
    if width == "json":
        words = [*(word for word in words if word != "--markdown"), "--json"]
    else:
        monkeypatch.setenv("COLUMNS", width)
    _savemark(*words)
    out, err = capsys.readouterr()
    assert out + err
    assert "a bug in savemark" not in out + err
    assert not CONTROLS.findall(out + err)
    if width == "json":
        json.loads(out)
    elif "--markdown" in words:
        assert not _live(out)


def test_a_checkpoint_is_one_line_whatever_its_name(tmp_path, capsys):
    for name in ("a\ncheckpoint: complete", "b\r\tok"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text(MANIFEST)
    _savemark("list", tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "a␊checkpoint: complete" in lines[0]


def _savemark(*words: object) -> None:
    with pytest.raises(SystemExit):
        cli.main([str(word) for word in words])
    sys.stdout.flush()


def test_no_script_runs_in_a_browser_and_none_can_be_put_in(run, tmp_path):
    browser.required()
    with browser.Browser(tmp_path) as chromium:
        chromium.open(run / "report.html", 1280, dark=False)
        for event in ("mouseover", "focus", "click", "error", "load"):
            chromium.run(
                "document.querySelectorAll('*').forEach("
                f"e => e.dispatchEvent(new Event('{event}', {{bubbles: true}})))"
            )
        assert chromium.run("window.pwned === undefined") is True
        assert not chromium.complaints
        # The page's own scripts do run: a filter hides rows.
        assert chromium.run("!document.querySelector('.tools').hidden") is True
        assert chromium.run(FILTERED) > 0
        chromium.run(INJECTED)
        assert chromium.run("window.pwned === undefined") is True
        assert any("Content Security Policy" in each for each in chromium.complaints)


FILTERED = """(() => {
  const filter = [...document.querySelectorAll("[data-filter]")].at(-1);
  filter.value = filter.options[1].value;
  filter.dispatchEvent(new Event("change"));
  return [...document.querySelectorAll(".sortable tbody tr")].filter((row) => row.hidden).length;
})()"""
INJECTED = """(() => {
  const script = document.createElement("script");
  script.textContent = "window.pwned = 1";
  document.body.append(script);
  const image = document.createElement("div");
  image.innerHTML = "<img src=x onerror='window.pwned = 1'>";
  document.body.append(image);
})()"""


@pytest.mark.parametrize("text", [*WORDS, *FORMULAS, EVERYTHING, "", "plain", "zstd × 4"])
def test_each_escape_is_harmless_and_keeps_plain_text(text):
    assert not CONTROLS.findall(escape.printable(text))
    assert "\n" not in escape.markdown(text)
    # No code, no cell, no element, and no end of the text of a link.
    assert not re.findall(r"(?<!\\)(?:[`|]|\](?=[(\[:]|$))|<", escape.markdown(text))
    assert not re.findall(r"[<>\"]", escape.html(text))
    assert (
        escape.csv(text) == text or str(escape.csv(text)).startswith("'") or not text.isprintable()
    )


def test_numbers_are_no_formulas():
    assert [escape.csv(value) for value in (-1, -1.5, None, "-1", "+1.5e-3")] == [
        -1, -1.5, None, "-1", "+1.5e-3",
    ]  # fmt: skip
