"""Which room of the package may import which, and that no two modules import each other."""

import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest
from importlinter import cli

PACKAGE = "savemark"
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def imports():
    """What each module imports: in functions, and for type checkers alone, too."""
    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=False, cache_dir=None)
    return {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}


def test_a_room_imports_lower_ones_only(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    code = cli.lint_imports(config_filename="pyproject.toml", no_cache=True)
    assert code == 0, capsys.readouterr().out


def test_no_two_modules_import_each_other(imports):
    # An import of the package is one of its compiled engine, or of its version, by the commands.
    below = {name: found - {PACKAGE} for name, found in imports.items()}
    assert len(below) > 300, "the modules are found"
    try:
        TopologicalSorter(below).prepare()
    except CycleError as error:
        pytest.fail(f"a circle: {' <- '.join(error.args[1])}")


def test_only_commands_ask_the_package_for_more_than_the_engine():
    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=False, cache_dir=None)
    details = [
        (importer, line["line_contents"])
        for importer in graph.find_modules_that_directly_import(PACKAGE)
        for line in graph.get_import_details(importer=importer, imported=PACKAGE)
    ]
    others = {importer for importer, line in details if "_engine" not in line}
    assert {name for name in others if not name.startswith(f"{PACKAGE}.cli.")} == set()


def test_saving_and_restoring_load_no_library():
    code = "import sys, savemark; savemark.save, savemark.restore; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout
    assert not {"click", "msgspec", "numpy", "polars", "rich", "scipy"} & set(
        loaded.decode().split()
    )
