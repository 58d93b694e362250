"""Directories and buckets in which we own a folder: of a run, or of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from savemark.errors import usage
from savemark.places.bucket import Bucket, request_limits
from savemark.places.directory import Directory
from savemark.places.place import Owner, Place

__all__ = ["Bucket", "Directory", "Owner", "Place", "at", "check_apart", "directory"]


def at(url: str, options: Mapping[str, object] | None = None) -> Place:
    """Return the place that a path or URL names; of `options` those of a server's answers count."""
    _check_name(url)
    if "://" in url and not url.startswith("file://"):
        if not url.rstrip("/").partition("://")[2]:
            raise usage(f"{url} names no bucket", "for example s3://bucket/prefix")
        return Bucket(url, request_limits(options or {}))
    return Directory(directory(url))


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
