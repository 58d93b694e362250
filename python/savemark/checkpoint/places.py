"""The place that a path or URL names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from savemark.checkpoint.folder import Folder
from savemark.checkpoint.options import RequestLimits, names
from savemark.checkpoint.place import Place
from savemark.checkpoint.prefix import Prefix
from savemark.errors import usage


def patience(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return how long a server may take to answer, in base units; empty where nobody said."""
    import savemark._engine as engine

    said = {name: options[name] for name in names(RequestLimits) if options.get(name) is not None}
    if isinstance(said.get("timeout"), str):
        said["timeout"] = engine.parse_span(said["timeout"])
    return said


def at(url: str, options: Mapping[str, object] | None = None) -> Place:
    """Return the place that a path or URL names; of `options` those of a server's answers count."""
    _check_name(url)
    if "://" in url and not url.startswith("file://"):
        return Prefix(url, patience(options or {}))
    return Folder(directory(url))


def directory(url: str) -> str:
    """Return the directory that a path or URL names: files are restored into directories only."""
    _check_name(url)
    path = url.removeprefix("file://")
    if "://" in path:
        raise usage(
            f"{url}: files are restored into a directory",
            "name a directory; to copy a checkpoint from bucket to bucket: aws s3 sync",
        )
    if not path:
        raise usage("the name of the checkpoint is empty", "name a directory or a URL")
    return path


def check_apart(outer: str, inner: str, what: str) -> None:
    """Refuse a directory that lies inside another one, which would then hold both."""
    if "://" in outer.removeprefix("file://") or "://" in inner.removeprefix("file://"):
        return
    above, below = Path(directory(outer)).resolve(), Path(directory(inner)).resolve()
    if above.is_dir() and (above == below or above in below.parents):
        raise usage(f"{inner} lies inside {outer}, {what}", "name a directory beside it")


def _check_name(url: str) -> None:
    """Refuse a name that is no text: no record, message or trial could name it."""
    if "\0" in url or any("\ud800" <= letter <= "\udfff" for letter in url):
        raise usage(
            f"the name {url!a} is not UTF-8 text",
            "rename it, or reach it by a link with another name: ln -s",
        )
