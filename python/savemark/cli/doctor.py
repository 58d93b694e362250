"""`savemark doctor`: what this machine is, and what the engine can do on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from savemark.cli._options import json_option
from savemark.cli._print import echo


@click.command("doctor", short_help="Show this machine and what works here.")
@click.argument("target", required=False, type=click.Path(exists=True, file_okay=False))
@json_option("what is found")
def command(target: str | None, as_json: bool) -> None:
    """Show this machine (and the storage below TARGET), and what works here or why not."""
    import savemark._engine as engine
    from savemark.run import wheels

    wheels.find()
    host = json.loads(engine.host(str(Path(target).resolve()) if target else None))
    if as_json:
        echo(json.dumps({"host": host, "features": json.loads(engine.features())}))
        return
    from savemark.cli._features import feature_lines

    echo(f"savemark {engine.version()}")
    for line in feature_lines():
        echo(line)
    for line in _lines(host, ""):
        echo(line)


def _lines(value: Any, path: str) -> list[str]:
    """Return `path  value` lines of nested facts; what is not known is left out."""
    if isinstance(value, dict):
        parts = [(f"{path}.{key}" if path else str(key), item) for key, item in value.items()]
        return [line for name, item in parts for line in _lines(item, name)]
    if isinstance(value, list):
        if any(isinstance(item, dict | list) for item in value):
            parts = [(f"{path}[{number}]", item) for number, item in enumerate(value)]
            return [line for name, item in parts for line in _lines(item, name)]
        value = ", ".join(str(item) for item in value)
    if path.endswith("_bytes") and isinstance(value, int):
        from savemark.cli._words import bytes_text

        path, value = path.removesuffix("_bytes"), bytes_text(value)
    return [] if value in (None, "") else [f"  {path:<32}  {value}"]
