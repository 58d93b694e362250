"""Writes the reference pages that come from the engine's schema, the commands and the checks.

With --check it only compares them.

The same run checks that every relative link in the documentation leads somewhere.
"""

import argparse
import json
import re
import sys
from pathlib import Path

import click

from savemark import _engine
from savemark.checks import catalogue
from savemark.cli import COMMANDS, cli
from savemark.cli._trial import TrialOption
from savemark.study.keys import OURS, Keys

ROOT = Path(__file__).parent.parent
HEAD = """# Reference: the options of a trial

Generated from the engine's schema by `docs/build.py`; do not edit. The same names are YAML keys in
a study and, with dashes, flags of `savemark run`.
"""


def default(option: dict) -> str:
    """The default as people would write it."""
    value = option.get("default")
    if value is None:
        return "none"
    if option.get("format") == "size":
        return _engine.format_size(value)
    if option.get("format") == "span":
        return f"{value:g} s"
    return json.dumps(value) if isinstance(value, bool) else str(value)


def values(option: dict, schema: dict) -> str:
    """What may be given."""
    if option.get("format") in ("size", "span"):
        return {"size": "a size", "span": "a duration"}[option["format"]]
    for place in (option, *option.get("anyOf", [])):
        if "$ref" in place:
            choices = schema["$defs"][place["$ref"].rsplit("/", 1)[1]]
            names = choices.get("enum") or [c["const"] for c in choices["oneOf"]]
            return " · ".join(f"`{name}`" for name in names)
    kind = option.get("type", "")
    kinds = kind if isinstance(kind, list) else [kind]
    words = {"integer": "a number", "boolean": "true or false", "string": "text"}
    return next((words[k] for k in kinds if k in words), "any")


def table(schema: dict) -> str:
    """One group of options."""
    options = schema.get("properties", {})
    if not options:
        return "No options.\n"
    rows = ["| key | values | default | meaning |", "|---|---|---|---|"]
    for name, option in options.items():
        meaning = option.get("description", "").replace("\n", " ").replace("|", "\\|")
        rows.append(f"| `{name}` | {values(option, schema)} | {default(option)} | {meaning} |")
    return "\n".join(rows) + "\n"


AROUND = """## Around every trial

Keys of savemark itself, not of its engine: see [tools.md](../tools.md) and [mpi.md](../mpi.md).
"""


def around() -> str:
    """The keys that the engine does not know."""
    rows = ["| key | values | default | meaning |", "|---|---|---|---|"]
    for name in OURS:
        key = Keys.load().by_name[name]
        words = " · ".join(f"`{choice}`" for choice in key.choices)
        words = words or "a number"
        kept = "none" if key.default is None else key.default
        rows.append(f"| `{name}` | {words} | {kept} | {key.description} |")
    return "\n".join(rows) + "\n"


def page() -> str:
    """The whole page."""
    schema = json.loads(_engine.schema())
    parts = [HEAD, "## Every trial\n", table(schema["common"])]
    parts.append(AROUND)
    parts += [around()]
    for title, group in (("Workloads", "workloads"), ("Storages", "storages")):
        parts.append(f"## {title}\n")
        for name, options in schema[group].items():
            parts += [f"### `{name}`\n", table(options)]
    parts.append("## Codecs\n\n" + " · ".join(f"`{c}`" for c in schema["codecs"]) + "\n")
    parts.append("## Payloads\n\n" + " · ".join(f"`{p}`" for p in schema["payloads"]) + "\n")
    return "\n".join(parts)


COMMANDS_HEAD = """# Reference: the commands

Generated from the commands by `docs/build.py`; do not edit. `savemark COMMAND --help` says the
same, `savemark run STUDY --help` what the options of a trial are in one study.
[Completion](../completion.md) in bash, zsh and fish knows them all.
"""
OF_A_TRIAL = "And [the options of a trial](trial.md): {}.\n"


def commands_page() -> str:
    """Every command with its options; of those that come from the engine the names."""
    context = click.Context(cli, info_name="savemark")
    return "\n".join([COMMANDS_HEAD, *(one_command(context, name) for name in COMMANDS)])


def one_command(above: click.Context, name: str) -> str:
    """A section, with one for each command below it."""
    command = above.command.get_command(above, name)
    context = click.Context(command, info_name=name, parent=above)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    text = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    rows, engines = [], []
    for each in options:
        record = each.get_help_record(context)
        if isinstance(each, TrialOption):
            engines.append(f"`{each.opts[0]}`")
        elif record and "--help" not in each.opts:
            left, right = (cell.replace("|", "\\|") for cell in record)
            rows.append(f"| `{left}` | {right} |")
    parts = [
        f"## {context.command_path.removeprefix('savemark ')}\n",
        f"    {usage}\n",
        f"{text}\n",
    ]
    parts += ["\n".join(["| option | |", "|---|---|", *rows, ""])] if rows else []
    every = len(engines) > 20
    parts += [OF_A_TRIAL.format("all" if every else ", ".join(engines))] if engines else []
    if isinstance(command, click.Group):
        parts += [one_command(context, each) for each in command.list_commands(context)]
    return "\n".join(parts)


CHECKS_HEAD = """# The honesty checks

Generated from the registry of checks by `docs/build.py`; do not edit.

Every run, measured or imported, passes through these checks. Each looks at evidence, applies a
rule and says what to do. Where the evidence is missing the answer is *unverified*, never *ok*. The
ids are stable: cite them.

| verdict | meaning |
|---|---|
| BLOCK | the number is not shown without `--show-blocked`, and the run is not valid |
| FLAG | shown, with the reason |
| NOTE | worth knowing |
| unverified | the evidence is missing |

`savemark check RUN_DIR` runs them alone (`--all` lists those that found nothing, `--strict` makes
an invalid run an error, `--json` is for programs), `savemark check --list` prints this table. L =
trials measured here, I = files imported from other programs.

"""

CHECKS_FOOT = """
## Limits

A study can set a limit; the finding then says so.

```yaml
checks:
  HC-13: {seconds: 300}                    # as IO500
  HC-08: {write_bytes_per_s: 131072000}    # the volume's provisioned 125 MiB/s
```

| id | limit | default |
|---|---|---|
"""


def checks_page() -> str:
    """The catalogue of checks."""
    entries = catalogue()
    rows = ["| id | asks | evidence and rule | verdict | for |", "|---|---|---|---|---|"]
    rows += [f"| {e.id} | {e.title} | {e.rule} | {e.verdict} | {e.applies} |" for e in entries]
    limits = [
        f"| {e.id} | `{name}` | {'not declared' if value is None else f'{value:g}'} |"
        for e in entries
        for name, value in e.limits.items()
    ]
    return CHECKS_HEAD + "\n".join(rows) + "\n" + CHECKS_FOOT + "\n".join(limits) + "\n"


def pages() -> dict[Path, str]:
    """Every generated page."""
    docs = ROOT / "docs"
    return {
        docs / "reference" / "trial.md": page(),
        docs / "reference" / "commands.md": commands_page(),
        docs / "checks.md": checks_page(),
    }


def broken_links() -> list[str]:
    """Relative links that lead nowhere."""
    broken = []
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text()):
            if "://" not in link and not (document.parent / link).exists():
                broken.append(f"{document.relative_to(ROOT)}: {link}")
    return broken


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args().check
    wrong = []
    for path, made in pages().items():
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made)
        elif not path.exists() or path.read_text() != made:
            wrong.append(f"{path.relative_to(ROOT)} is out of date: run docs/build.py")
    wrong += broken_links()
    for line in wrong:
        sys.stderr.write(f"{line}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
