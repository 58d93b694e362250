"""The Rust modules of a folder use each other in one direction; Cargo holds the same of crates."""

import graphlib
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

CRATES = sorted((Path(__file__).parents[1] / "crates").glob("*/src"))
TESTS = re.compile(r"^#\[cfg\(test\)\]\n(?:pub )?mod \w+(?:;| \{.*?^\})", re.M | re.S)
COMMENT = re.compile(r"//.*")
USE = re.compile(r"^\s*(pub(?:\([a-z]+\))? )?use ([^;]+);", re.M)
INLINE = re.compile(r"(?<![\w:])(?:crate|super|self)(?:::\w+)+")

Path_ = tuple[str, ...]


def leaves(tree: str, start: Path_ = ()) -> Iterator[Path_]:
    """Every path of a use tree: `a::{b, c::d}` has `a::b` and `a::c::d`."""
    head, brace, rest = tree.strip().partition("{")
    parts = tuple(part for part in head.split(" as ")[0].strip().split("::") if part)
    if not brace:
        if parts:
            yield start + parts
        return
    depth, branch = 0, ""
    for letter in rest[: rest.rindex("}")] + ",":
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            yield from leaves(branch, start + parts)
            branch = ""
        else:
            branch += letter


def absolute(path: Path_, module: Path_) -> Path_ | None:
    """The path from the crate's root; None if it is another crate's."""
    if path[0] == "crate":
        return path[1:]
    if path[0] not in ("super", "self"):
        return None
    while path and path[0] in ("super", "self"):
        module = module[:-1] if path[0] == "super" else module
        path = path[1:]
    return module + path


class Crate:
    """Its modules, and what each of them uses."""

    def __init__(self, source: Path) -> None:
        self.uses: dict[Path_, set[Path_]] = {}
        self.exports: dict[Path_, Path_] = {}
        for file in sorted(source.rglob("*.rs")):
            parts = file.relative_to(source).with_suffix("").parts
            if parts[-1] in ("mod", "lib"):
                parts = parts[:-1]
            if parts[-1:] != ("tests",):
                self.read(parts, TESTS.sub("", file.read_text()))

    def read(self, module: Path_, text: str) -> None:
        text = COMMENT.sub("", text)
        found = {tuple(path.split("::")) for path in INLINE.findall(text)}
        for public, tree in USE.findall(text):
            for path in leaves(tree):
                found.add(path)
                if public and path[0] not in ("crate", "super", "self"):
                    self.exports[(*module, path[-1])] = module + path
        resolved = (absolute(path, module) for path in found)
        self.uses[module] = {path for path in resolved if path}

    def folders(self) -> set[Path_]:
        return {module[:-1] for module in self.uses if module}

    def edges(self, folder: Path_) -> dict[str, set[str]]:
        """Which modules of a folder use which others of it."""
        depth = len(folder)
        children = {m[depth] for m in self.uses if len(m) > depth and m[:depth] == folder}
        graph: dict[str, set[str]] = defaultdict(set)
        for module, used in self.uses.items():
            if len(module) <= depth or module[:depth] != folder:
                continue
            for path in used:
                known = path[: depth + 1]
                target = self.exports.get(known, known)
                if target[:depth] == folder and len(target) > depth and target[depth] in children:
                    graph[module[depth]].add(target[depth])
            graph[module[depth]].discard(module[depth])
        return graph


@pytest.mark.parametrize("source", CRATES, ids=lambda source: source.parent.name)
def test_no_modules_of_a_folder_form_a_circle(source: Path) -> None:
    crate = Crate(source)
    circles = []
    for folder in sorted(crate.folders()):
        try:
            graphlib.TopologicalSorter(crate.edges(folder)).prepare()
        except graphlib.CycleError as error:
            circles.append(
                f"{'::'.join(folder) or 'crate'}: {' -> '.join(reversed(error.args[1]))}"
            )
    assert not circles, "\n".join(circles)
