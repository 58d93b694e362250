"""Trials of other tools, run in this process, and a server for those that need a bucket."""

import json
import shutil

import s3_real

MIB = 1 << 20


def run(trial, target, folder):
    """Run one trial of a tool on a directory or URL; return its record."""
    from savemark import _engine
    from savemark.run.foreign import Foreign
    from savemark.study.keys import resolve

    storage = {} if "://" in str(target) else on(target)
    trial = {**storage, **trial}
    if "://" in str(target):
        trial["storage"] = "object"
    resolve(trial, str(target))
    foreign = Foreign(folder, _engine.Engine())
    return foreign.run({**trial, "target": str(target)}, "00000", lambda progress: None)


def on(path):
    """The options with which the filesystem at `path` can be measured."""
    from savemark import _engine

    memory = json.loads(_engine.host(str(path)))["target"]["class"] == "memory"
    return {"storage": "posix", "direct": not memory}


def phases(record):
    """The measured phases of a record by name."""
    return {phase["name"]: phase for phase in record["phases"] if phase["name"] != "prepare"}


def need(*names):
    """Skip a test without its tools, or fail it where they are required."""
    for name in names:
        s3_real.tool(name)


def there(name):
    """Whether a tool is on PATH."""
    return shutil.which(name) is not None


def enter(monkeypatch, variables):
    """Put a server's variables into this process's environment, and take the user's own out."""
    import os

    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
