"""The studies that come with savemark, and how a study is found by what was typed."""

from __future__ import annotations

from pathlib import Path

from savemark.errors import did_you_mean, usage

SHIPPED = Path(__file__).parent.parent / "studies"


def shipped() -> dict[str, Path]:
    """Return the studies that come with savemark, by name."""
    found = {path.parent.name: path for path in SHIPPED.glob("*/study.yaml")}
    return {name.replace("_", "-"): found[name] for name in sorted(found)}


def is_shipped(file: Path) -> bool:
    """Return whether a study's file comes with savemark."""
    return file.parent.parent == SHIPPED


def source(name: str) -> str:
    """Return the YAML of a shipped study; any other name is a usage error."""
    known = shipped()
    if name not in known:
        raise usage(f"there is no study `{name}`", did_you_mean(name, list(known)))
    return known[name].read_text(encoding="utf-8")


def find(name: str) -> Path:
    """Return the file of a shipped study, or of a path; anything else is a usage error."""
    known = shipped()
    if name in known:
        return known[name]
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    raise usage(
        f"`{name}` is neither a study nor a directory",
        f"for a directory write ./{name} and create it first; {did_you_mean(name, list(known))}",
    )
