"""The help of the commands that measure a study: short, in groups, and that of one study."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from savemark.cli._trial import METAVARS, NOT_FLAGS, TrialOption, names, spelt

if TYPE_CHECKING:
    from savemark.study.keys import Key, Keys
    from savemark.study.model import Study

# Of the command's own options, those that are about what comes out; all others are about the run.
RESULT = ("expect", "out", "strict", "show_blocked", "as_json", "as_markdown")
# Named on the short page, and explained in the reference.
RARE = ("seed", "max_repeats", "emit")
# Of the trial's options, those that matter to most people. The pages of the studies have the rest.
MOST = ("size", "state", "payload", "codec", "streams", "storage", "direct")
# The workload whose words describe the options of the short page.
MAIN = "checkpoint"
# A description up to its first point or semicolon; or up to any stop outside of parentheses.
SENTENCE = re.compile(r"(?:[^.;]|[.;](?!\s|$))*")
CLAUSE = re.compile(r"(?:[^.;:,(]|\([^)]*\))*")
UNITS = {"size": "bytes", "span": "seconds"}
# Names of options are as wide at most where text stands beside them.
COLUMN, COLUMNS = 26, {"Examples": 54}
Rows = list[tuple[str, str]]
Group = tuple[str, Rows]


def brief(
    ctx: click.Context, examples: Iterable[tuple[str, str]], default: str, keys: Keys
) -> Iterator[Group]:
    """Yield what most people need of a command: examples, then its options in groups.

    `default` is the study that it runs where none is named.
    """
    from savemark.study.load import load
    from savemark.study.shipped import find

    yield "Examples", list(examples)
    options = (each for each in ctx.command.params if isinstance(each, click.Option))
    own = {each.name: each for each in options if not isinstance(each, TrialOption)}
    plain = [name for name in own if name not in (*RESULT, *RARE)]
    yield "Run", _own(ctx, (own[name] for name in plain))
    yield "Result", _own(ctx, (own[name] for name in RESULT if name in own))
    values = levels(load(find(default), keys), keys)
    places = keys.of_storages() | {"storage"}
    rows = {name: _row(keys.of(MAIN, name), values.get(name), CLAUSE) for name in MOST}
    yield (
        f"State (a comma list measures each; defaults: study {default})",
        [row for name, row in rows.items() if name not in places],
    )
    yield "Storage", [row for name, row in rows.items() if name in places]
    rare = ", ".join(own[name].opts[0] for name in RARE if name in own)
    yield (
        "More",
        [
            (f"{ctx.command_path} STUDY --help", "The options of one study."),
            ("docs/reference", f"Every option, also {rare}."),
        ],
    )


def of_study(study: Study, keys: Keys) -> Iterator[Group]:
    """Yield the options that the workloads and storages of a study accept, in groups."""
    from savemark.study.keys import OURS

    values, sections = levels(study, keys), study.sections()
    varied = {name for section in sections for name in section.factors}
    owner = {n: s.workload for s in reversed(sections) for n in keys.accepted(s.workload, None)}
    places = keys.of_storages() | {"storage"}
    groups: dict[str, Rows] = {"Varied": [], "Trial": [], "Storage": [], "Who runs it": []}
    for name, found in values.items():
        group = "Who runs it" if name in OURS else "Storage" if name in places else "Trial"
        row = _row(keys.of(owner.get(name), name), found, SENTENCE)
        groups["Varied" if name in varied else group].append(row)
    yield from ((title, rows) for title, rows in groups.items() if rows)
    yield (
        "More",
        [
            ("savemark run --help", "Budget, repeats, results."),
            (f"savemark studies show {study.name}", "The study itself."),
            ("docs/reference/trial.md", "Every option, in full."),
        ],
    )


def levels(study: Study, keys: Keys) -> dict[str, list[str]]:
    """Return what each key of a study is where no flag says otherwise, in its parts if they differ.

    Several levels of a factor are one text, as they are typed: `none,zstd`.
    """
    from savemark.study.keys import resolve
    from savemark.study.plan import SMALLEST_AUTO_BYTES

    found: dict[str, list[str]] = {}
    for section in study.sections():
        sized, cell = section.with_size(SMALLEST_AUTO_BYTES), section.cells()[0]
        filled = resolve(sized.trial_of(sized.trial, cell, keys))
        said = {**section.trial_of(section.trial, cell, keys), **section.factors}
        storages = section.factors.get("storage", [filled.get("storage")])
        accepted = set().union(*(keys.accepted(filled["workload"], each) for each in storages))
        for name in keys.by_name:
            if name in accepted and name not in NOT_FLAGS:
                value = said.get(name, filled.get(name, keys.key(name).default))
                each = value if isinstance(value, list) else [value]
                text = ",".join(spelt(keys.key(name), one) for one in each)
                found.setdefault(name, [])
                found[name] += [text] if text not in found[name] else []
    return found


def _own(ctx: click.Context, options: Iterable[click.Option]) -> Rows:
    return [row for row in (option.get_help_record(ctx) for option in options) if row]


def _row(key: Key, values: list[str] | None, part: re.Pattern[str]) -> tuple[str, str]:
    """Return the names of an option, and a part of its text with choices, unit and default."""
    metavar = "LIST" if key.choices else METAVARS.get(key.kind)
    left = ", ".join(names(key)).replace("/", " / ") + (f" {metavar}" if metavar else "")
    found = part.match(key.description)
    text = (found[0] if found else "").rstrip()
    default = " · ".join(value for value in values or [] if value)
    notes = ["|".join(key.choices)] if key.choices else []
    notes += [UNITS[key.kind]] if key.kind in UNITS else []
    notes += [f"default: {default}"] if default else []
    return left, f"{text}.  [{'; '.join(notes)}]" if notes else f"{text}."


def write(formatter: click.HelpFormatter, groups: Iterable[Group]) -> None:
    """Write groups of rows below each other."""
    for title, rows in groups:
        with formatter.section(title):
            formatter.write_dl(rows, col_max=COLUMNS.get(title, COLUMN))


def about_study(study: Study) -> tuple[str, str]:
    """Return the two paragraphs above the options of a study."""
    from savemark.cli._words import about

    repeats = "1 repeat" if study.repeats == 1 else f"{study.repeats} repeats"
    return study.title, (
        f"{repeats}, {about(study.budget_s)}. An option replaces what the study has; a comma list "
        "measures each. Defaults of its parts are set apart by ·. SIZE: 64MiB, 64MB (1000 x 1000), "
        "4k, or bytes. TIME: 500ms, 90s, 2m, or seconds."
    )
