"""What shipped studies add to a report: tables and figures that stand in their own folders.

`tables.py` of a study has `tables(analysis)`, and where the study has more than tables `folds`
(blocks behind its figures) and `files` (texts below tables/, by name). `figures.py` has `FIGURES`.
Each is asked about every run, for files of other programs may be of any study.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from types import ModuleType

from savemark.report.analysis import Analysis
from savemark.report.document import Block, Picture, Table
from savemark.report.figure import Figure
from savemark.study.shipped import shipped

Pictures = Callable[[str], tuple[Picture, ...]]  # those of a section of the report


@cache
def _modules(name: str) -> list[ModuleType]:
    folders = [file.parent for file in shipped().values()]
    return [
        importlib.import_module(f"savemark.studies.{folder.name}.{name}")
        for folder in folders
        if (folder / f"{name}.py").exists()
    ]


def tables(analysis: Analysis) -> list[Table]:
    """All tables that studies have for this run; each says in which section it stands."""
    return [table for module in _modules("tables") for table in module.tables(analysis)]


def folds(analysis: Analysis, pictures: Pictures) -> list[Block]:
    """What stands behind the figures of the studies."""
    modules = [module for module in _modules("tables") if hasattr(module, "folds")]
    return [block for module in modules for block in module.folds(analysis, pictures)]


def files(analysis: Analysis) -> dict[str, str]:
    """Texts for the folder of tables, by the name of the file."""
    modules = [module for module in _modules("tables") if hasattr(module, "files")]
    return {name: text for module in modules for name, text in module.files(analysis).items()}


def figures() -> list[Figure]:
    """The figures of all studies; each says why it does not apply to a run."""
    return [figure for module in _modules("figures") for figure in module.FIGURES]
